// Opens the page of a wgpu package in headless Chromium on a software GPU, gives it raw input files, presses its button, and prints
// what it says: node scripts/run-page.mjs CHROMIUM PACKAGE WEIGHTS INPUT... The browser is driven by the DevTools protocol.
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { spawn } from 'node:child_process';

const [chromium, folder, weights, ...inputs] = process.argv.slice(2);
const types = { '.html': 'text/html', '.mjs': 'text/javascript', '.json': 'application/json' };
const server = http.createServer((request, response) => {
  const name = path.basename(new URL(request.url, 'http://localhost').pathname) || 'index.html';
  const found = [folder, weights].map(f => path.join(f, name)).find(f => fs.existsSync(f));
  if (!found) return response.writeHead(404).end();
  response.writeHead(200, { 'Content-Type': types[path.extname(name)] ?? 'application/octet-stream' });
  fs.createReadStream(found).pipe(response);
});
await new Promise(done => server.listen(0, '127.0.0.1', done));

const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'run-page-'));
const browser = spawn(chromium, [
  '--headless=new', '--no-sandbox', '--disable-dev-shm-usage', '--enable-unsafe-webgpu', '--enable-features=Vulkan',
  '--use-webgpu-adapter=swiftshader', '--use-vulkan=swiftshader', '--remote-debugging-pipe', `--user-data-dir=${profile}`, 'about:blank',
], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
const finish = (text, code) => {
  console.log(text);
  browser.once('close', () => {
    try {
      fs.rmSync(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 200 });
    } catch (error) {
      // A child of the browser may outlive it and still write. The page is not at fault.
      console.error('the profile remains:', error.message);
    }
    process.exit(code);
  });
  browser.kill();
};
setTimeout(() => finish('the page said nothing in time', 1), 120_000);

// Commands are numbered JSON messages that end with a zero byte; answers carry the number.
const waiting = new Map();
let received = '', number = 0;
browser.stdio[4].setEncoding('utf8').on('data', data => {
  const messages = (received + data).split('\0');
  received = messages.pop();
  for (const message of messages.map(m => JSON.parse(m))) {
    waiting.get(message.id)?.(message);
    waiting.delete(message.id);
  }
});
const command = (method, params, sessionId) => new Promise((done, failed) => {
  waiting.set(++number, answer => answer.error ? failed(new Error(`${method}: ${answer.error.message}`)) : done(answer.result));
  browser.stdio[3].write(JSON.stringify({ id: number, method, params, sessionId }) + '\0');
});

try {
  const { targetId } = await command('Target.createTarget', { url: `http://127.0.0.1:${server.address().port}/` });
  const { sessionId } = await command('Target.attachToTarget', { targetId, flatten: true });
  const evaluate = async expression => (await command('Runtime.evaluate', { expression, awaitPromise: true }, sessionId)).result;
  const until = async expression => {
    for (;;) {
      const { value } = await evaluate(expression);
      if (value) return value;
      await new Promise(done => setTimeout(done, 50));
    }
  };
  await until('document.querySelector("button")?.onclick != null');
  for (const [i, file] of inputs.entries()) {
    const { objectId } = await evaluate(`document.getElementById('input ${i}')`);
    await command('DOM.setFileInputFiles', { files: [path.resolve(file)], objectId }, sessionId);
  }
  await evaluate('document.querySelector("button").click()');
  finish(await until('document.querySelector("pre").textContent'), 0);
} catch (e) {
  finish(e.message, 1);
}
