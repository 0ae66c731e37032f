// Clicks through an HTML report in headless Chromium, with the network off, and prints what fails:
// node scripts/click-report.mjs CHROMIUM REPORT.html [FOLDER], where screenshots of every view go, light and dark.
import {spawn} from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import {pathToFileURL} from 'node:url';

const [chromium, report, shots] = process.argv.slice(2);
const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'click-report-'));
const browser = spawn(
    chromium,
    [
      '--headless=new',
      '--no-sandbox',
      '--disable-dev-shm-usage',
      '--disable-gpu',
      '--window-size=1400,900',
      '--remote-debugging-pipe',
      `--user-data-dir=${profile}`,
      'about:blank',
    ],
    {stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe']});
const failures = [];
const finish = () => {
  for (const f of failures) console.log('FAIL', f);
  browser.once('close', () => {
    try {
      fs.rmSync(profile, {recursive: true, force: true, maxRetries: 20, retryDelay: 200});
    } catch (error) {
      // A child of the browser may outlive it and still write. The report is not at fault.
      console.log('the profile remains:', error.message);
    }
    process.exit(failures.length ? 1 : 0);
  });
  browser.kill();
};
setTimeout(() => {
  failures.push('the page said nothing in time');
  finish();
}, 120_000);

// Commands are numbered JSON messages that end with a zero byte; answers carry the number.
const waiting = new Map();
let received = '', number = 0, requests = 0;
browser.stdio[4].setEncoding('utf8').on('data', data => {
  const messages = (received + data).split('\0');
  received = messages.pop();
  for (const message of messages.map(m => JSON.parse(m))) {
    waiting.get(message.id)?.(message);
    if (message.method === 'Runtime.exceptionThrown')
      failures.push(message.params.exceptionDetails.exception?.description ?? message.params.exceptionDetails.text);
    if (message.method === 'Network.requestWillBeSent' && !message.params.request.url.startsWith('file:')) ++requests;
  }
});
const send = (method, params = {}, sessionId) => new Promise((done, fail) => {
  const id = ++number;
  waiting.set(id, m => (m.error ? fail(new Error(method + ': ' + m.error.message)) : done(m.result)));
  browser.stdio[3].write(JSON.stringify({id, method, params, sessionId}) + '\0');
});

try {
  const {targetId} = await send('Target.createTarget', {url: 'about:blank'});
  const {sessionId} = await send('Target.attachToTarget', {targetId, flatten: true});
  const page = (method, params) => send(method, params, sessionId);
  const run = async code => {
    const {result, exceptionDetails} =
        await page('Runtime.evaluate', {expression: code, returnByValue: true, awaitPromise: true});
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  };
  const expect = async (what, code) => {
    const value = await run(code);
    if (!value) failures.push(`${what}: ${code} is ${value}`);
  };
  const settle = () => run('new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))');
  const press = async (key, text) => {
    for (const type of ['keyDown', 'keyUp'])
      await page('Input.dispatchKeyEvent', {type, key, code: key, text: type === 'keyDown' ? text : undefined});
    await settle();
  };
  const shot = async name => {
    if (!shots) return;
    await settle();
    const {data} = await page('Page.captureScreenshot', {format: 'png'});
    fs.mkdirSync(shots, {recursive: true});
    fs.writeFileSync(path.join(shots, name + '.png'), Buffer.from(data, 'base64'));
  };
  await page('Runtime.enable');
  await page('Page.enable');
  await page('Network.enable');
  const start = Date.now();
  await page('Page.navigate', {url: pathToFileURL(path.resolve(report)).href});
  await run('new Promise(done => document.readyState === "complete" ? done() : addEventListener("load", done))');
  await settle();
  console.log(`opens in ${Date.now() - start} ms, ${fs.statSync(report).size} bytes`);

  for (const theme of ['light', 'dark']) {
    if (await run('document.documentElement.classList.contains("dark")') !== (theme === 'dark'))
      await run('document.getElementById("theme").click()');
    const tabs = await run('[...document.querySelectorAll("[role=tab]")].map(t => t.id)');
    for (const tab of tabs) {
      await run(`document.getElementById("${tab}").click()`);
      await settle();
      await expect(`${tab} has content`, 'document.getElementById("view").textContent.trim().length > 20');
      await shot(`${theme}-${tab.slice(4)}`);
    }
  }
  await run('document.getElementById("theme").click()');

  // Keys: from tab to tab, search, node to node.
  await run('document.getElementById("tab-summary").click(); document.getElementById("tab-summary").focus()');
  await press('ArrowRight');
  await expect(
      'the right arrow opens the graph', 'document.getElementById("tab-graph").getAttribute("aria-selected") === "true"');
  const boxes = await run('document.querySelectorAll(".node").length');
  await press('/', '/');
  await expect('/ goes to the search', 'document.activeElement.id === "search"');
  const word = await run(
      '[...document.querySelectorAll(".node")].map(n => n.getAttribute("aria-label").split(" ")[0]).find(w => /MatMul|Conv|Attention/.test(w)) || "Input"');
  for (const letter of word) await press(letter, letter);
  await expect('the search marks nodes', 'document.querySelectorAll(".node.hit").length > 0');
  await press('Enter', '\r');
  await expect('Enter chooses the node', 'document.querySelectorAll(".node.chosen").length === 1');
  await expect('its facts are shown', 'document.querySelector(".side dl") !== null');
  await shot('search');

  // Zoom and pan.
  const camera = 'document.querySelector(".stage svg > g").getAttribute("transform")';
  let before = await run(camera);
  await run('document.querySelector("button[aria-label^=\'zoom in\']").click()');
  await expect('the button zooms', `${camera} !== ${JSON.stringify(before)}`);
  before = await run(camera);
  await page('Input.dispatchMouseEvent', {type: 'mouseWheel', x: 500, y: 500, deltaX: 0, deltaY: -240});
  await settle();
  await expect('the wheel zooms', `${camera} !== ${JSON.stringify(before)}`);
  before = await run(camera);
  await page('Input.dispatchMouseEvent', {type: 'mousePressed', x: 60, y: 700, button: 'left', buttons: 1, clickCount: 1});
  await page('Input.dispatchMouseEvent', {type: 'mouseMoved', x: 160, y: 740, button: 'left', buttons: 1});
  await page('Input.dispatchMouseEvent', {type: 'mouseReleased', x: 160, y: 740, button: 'left'});
  await expect('dragging moves', `${camera} !== ${JSON.stringify(before)}`);

  // Repeated layers.
  if (await run('document.getElementById("layers") !== null')) {
    await expect('a frame names the repetition', '/layer ×\\d+/.test(document.querySelector(".frame-label").textContent)');
    await run('document.getElementById("layers").click()');
    await expect('all layers are shown', `document.querySelectorAll(".node").length > ${boxes}`);
    await shot('all-layers');
    await run('document.getElementById("layers").click()');
    await expect('and collapse again', `document.querySelectorAll(".node").length === ${boxes}`);
  }

  // Hover in the arena, and why a value is alive.
  await run('document.getElementById("tab-memory").click()');
  await settle();
  await expect(
      'the arena is drawn',
      '[...document.querySelector("canvas").getContext("2d").getImageData(0, 0, document.querySelector("canvas").width, document.querySelector("canvas").height).data].some(v => v > 0)');
  const box = await run(
      '(() => { const r = document.querySelector("canvas").getBoundingClientRect(); return { x: r.x, y: r.y, w: r.width, h: r.height }; })()');
  for (let i = 1; i < 20 && await run('document.getElementById("tip").hidden'); ++i) {
    await page('Input.dispatchMouseEvent', {type: 'mouseMoved', x: box.x + 80 + (box.w - 90) * i / 20, y: box.y + box.h - 36});
    await settle();
  }
  await expect('hovering names a value', '!document.getElementById("tip").hidden');
  await shot('hover');
  await run('document.querySelector("tr.link").focus()');
  await press('Enter', '\r');
  await expect('a value says why it is alive', '/Alive from step/.test(document.getElementById("view").textContent)');
  await shot('alive');

  // The machine of the roofline.
  await run('document.getElementById("tab-cost").click()');
  await run('{ const m = document.getElementById("machine"); m.value = "cuda"; m.dispatchEvent(new Event("change")); }');
  await expect('another machine', 'document.getElementById("machine").value === "cuda"');
  if (requests) failures.push(`${requests} requests to the network`);
} catch (e) {
  failures.push(e.message);
}
finish();
