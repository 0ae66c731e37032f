// Runs the package on raw files with the npm package `webgpu`: node run.mjs WEIGHTS [SIZE=VALUE...] INPUT... writes
// output_<i>.bin into the current folder and prints their sizes. WEIGHTS is the folder with the weights. RLXC_WEBGPU names a folder that has
// node_modules/webgpu, if it is not found from here.
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { Program } from './rlxc.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const require = createRequire(path.join(process.env.RLXC_WEBGPU ?? here, 'index.js'));
let webgpu;
try {
  webgpu = require.resolve('webgpu');
} catch {
  console.error('the npm package webgpu (Dawn) is missing: npm install webgpu beside the package, or let RLXC_WEBGPU name a folder that has it');
  process.exit(1);
}
const { create, globals } = await import(webgpu);
Object.assign(globalThis, globals);

const [folder, ...rest] = process.argv.slice(2);
const sizes = Object.fromEntries(rest.filter(a => a.includes('=')).map(a => [a.slice(0, a.lastIndexOf('=')), Number(a.slice(a.lastIndexOf('=') + 1))]));
const inputs = rest.filter(a => !a.includes('=')).map(f => fs.readFileSync(f));
const launch = JSON.parse(fs.readFileSync(path.join(here, 'launch.json'), 'utf8'));
try {
  const weight = (file, offset, bytes) => {
    const data = Buffer.alloc(bytes), fd = fs.openSync(path.join(folder, file));
    if (fs.readSync(fd, data, 0, bytes, offset) !== bytes) throw new Error(`${file} is too short`);
    fs.closeSync(fd);
    return data;
  };
  const program = await Program.create(create([]), launch, file => fs.readFileSync(path.join(here, file), 'utf8'), weight,
                                       { blocking: true });
  if (launch.symbols.length) program.setSizes(sizes);
  const outputs = await program.run(inputs);
  outputs.forEach((o, i) => {
    fs.writeFileSync(`output_${i}.bin`, Buffer.from(o));
    console.log(`output_${i}.bin [${program.outputShape(i)}]`);
  });
} catch (e) {
  console.error(e.message);
  process.exit(1);
}
process.exit(0);  // the device keeps Node alive
