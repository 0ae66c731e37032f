// Runs a wgpu package in Node: node app.mjs PACKAGE. RLXC_WEBGPU names a folder that has the npm package webgpu, if not this one.
import path from 'node:path';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(path.join(process.env.RLXC_WEBGPU ?? import.meta.dirname, 'index.js'));
const { create, globals } = await import(require.resolve('webgpu'));
Object.assign(globalThis, globals);
const { Model } = await import(pathToFileURL(path.resolve(process.argv[2], 'mlp_model.js')));

const model = await Model.load({ gpu: create([]) });
console.log(model.inputs, model.sizes);
for (const batch of [1, 3]) {
  model.setSizes({ batch });
  const { y } = await model.run({ x: new Float32Array(4 * batch).fill(0.5) });
  console.log(`[${model.outputShape('y')}]`, [...y].map(v => v.toFixed(6)).join(' '));
}
try {
  await model.run({ x: [0.5] });
} catch (e) {
  console.log(e.message);
}
process.exit(0);  // the device keeps Node alive
