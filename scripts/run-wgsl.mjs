// Runs WGSL kernels on Dawn (npm package `webgpu`) for the tests: run-wgsl.mjs FOLDER. FOLDER/jobs has one line per kernel:
//   module entry groupsX groupsY groupsZ symbols... ; offset bytes writable, offset bytes writable ...
// with the buffers in FOLDER/data, to which the writable ones are written back. Messages of the compiler go to stdout.
import { createRequire } from 'node:module';
import fs from 'node:fs';
import path from 'node:path';

const folder = process.argv[2];
const require = createRequire(path.join(process.env.RLXC_WEBGPU, 'index.js'));
const { create, globals } = await import(require.resolve('webgpu'));
Object.assign(globalThis, globals);
globalThis.gpu = create([]);  // kept: the device does not keep it
const adapter = await gpu.requestAdapter();
if (!adapter) {
  console.log('no adapter');
  process.exit(1);
}
const device = await adapter.requestDevice();
const data = fs.readFileSync(path.join(folder, 'data'));

for (const line of fs.readFileSync(path.join(folder, 'jobs'), 'utf8').trim().split('\n')) {
  const [head, tail] = line.split(';');
  const [module, entry, x, y, z, ...symbols] = head.trim().split(' ');
  const buffers = tail.trim().split(',').map(b => b.trim().split(' ').map(Number));
  device.pushErrorScope('validation');
  const shader = device.createShaderModule({ code: fs.readFileSync(path.join(folder, module), 'utf8') });
  const messages = (await shader.getCompilationInfo()).messages;
  for (const m of messages) console.log(`${module}:${m.lineNum}: ${m.type}: ${m.message}`);
  if (messages.some(m => m.type === 'error')) {
    await device.popErrorScope();
    continue;
  }
  const groups = [x, y, z].map(Number);
  const types = buffers.map(b => (b[2] ? 'storage' : 'read-only-storage')).concat(symbols.length ? ['uniform'] : []);
  const layout = device.createBindGroupLayout({
    entries: types.map((type, binding) => ({ binding, visibility: GPUShaderStage.COMPUTE, buffer: { type } })),
  });
  const pipeline = await device.createComputePipelineAsync({
    layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
    compute: { module: shader, entryPoint: entry },
  });
  const storage = buffers.map(([offset, bytes]) => {
    const b = device.createBuffer({ size: Math.max(16, bytes), usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST });
    device.queue.writeBuffer(b, 0, data, offset, bytes);
    return b;
  });
  if (symbols.length) {
    const b = device.createBuffer({ size: 16 * Math.ceil(symbols.length / 4), usage: GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST });
    device.queue.writeBuffer(b, 0, new Int32Array(symbols.map(Number)));
    storage.push(b);
  }
  if (groups.every(n => n > 0)) {
    const entries = storage.map((buffer, binding) => ({ binding, resource: { buffer } }));
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, device.createBindGroup({ layout, entries }));
    pass.dispatchWorkgroups(...groups);
    pass.end();
    device.queue.submit([encoder.finish()]);
  }
  for (const [i, [offset, bytes, writable]] of buffers.entries()) {
    if (!writable || !bytes) continue;
    const read = device.createBuffer({ size: bytes, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
    const encoder = device.createCommandEncoder();
    encoder.copyBufferToBuffer(storage[i], 0, read, 0, bytes);
    device.queue.submit([encoder.finish()]);
    await read.mapAsync(GPUMapMode.READ);
    Buffer.from(read.getMappedRange()).copy(data, offset);
    read.destroy();
  }
  for (const b of storage) b.destroy();
  const error = await device.popErrorScope();
  if (error) console.log(`${module}: ${error.message}`);
}
fs.writeFileSync(path.join(folder, 'data'), data);
process.exit(0);
