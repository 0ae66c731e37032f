#!/usr/bin/env node
// Runs the program of the package for this platform. Its streams, exit code and signals are those of the command line.
"use strict";
const { spawn } = require("child_process");
const os = require("os");

const { optionalDependencies } = require("./package.json");
const name = `@rlxc/${process.platform}-${process.arch}`;

function fail(message) {
  process.stderr.write(`rlxc: ${message}\n`);
  process.exit(9); // a program that is not installed
}

if (!(name in optionalDependencies))
  fail(`there is no program for ${process.platform}-${process.arch}; there are ${Object.keys(optionalDependencies).join(", ")}`);
let program;
try {
  program = require.resolve(`${name}/bin/rlxc`);
} catch {
  fail(`${name} is not installed: npm left out optional dependencies; run npm install ${name}`);
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
// A terminal sends SIGINT and SIGQUIT to both processes, other senders to this one alone.
for (const signal of ["SIGINT", "SIGQUIT"]) process.on(signal, () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => fail(error.message));
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
  setTimeout(() => process.exit(128 + os.constants.signals[signal]), 1000); // a signal that ends no process
});
