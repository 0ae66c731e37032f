// Runs WGSL kernels on Dawn (npm package `webgpu`) for the tests: run-wgsl.mjs FOLDER. FOLDER/jobs has one line per kernel:
//   module entry groupsX groupsY groupsZ arguments... ; offset bytes
// The part of FOLDER/data at this offset is its memory, and written back. Messages of the compiler go to stdout.
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
const layout = device.createBindGroupLayout({
  entries: ['storage', 'uniform'].map((type, binding) => ({ binding, visibility: GPUShaderStage.COMPUTE, buffer: { type } })),
});

for (const line of fs.readFileSync(path.join(folder, 'jobs'), 'utf8').trim().split('\n')) {
  const [head, tail] = line.split(';');
  const [module, entry, x, y, z, ...numbers] = head.trim().split(' ');
  const [offset, bytes] = tail.trim().split(' ').map(Number);
  device.pushErrorScope('validation');
  const shader = device.createShaderModule({ code: fs.readFileSync(path.join(folder, module), 'utf8') });
  const messages = (await shader.getCompilationInfo()).messages;
  for (const m of messages) console.log(`${module}:${m.lineNum}: ${m.type}: ${m.message}`);
  if (messages.some(m => m.type === 'error')) {
    await device.popErrorScope();
    continue;
  }
  const groups = [x, y, z].map(Number);
  const pipeline = device.createComputePipeline({  // the other form polls meanwhile
    layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
    compute: { module: shader, entryPoint: entry },
  });
  const size = Math.max(16, bytes);
  const memory = device.createBuffer({ size, usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST });
  const uniform = device.createBuffer({ size: 16 * Math.ceil((numbers.length + 1) / 4), usage: GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST });
  const read = device.createBuffer({ size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
  device.queue.writeBuffer(memory, 0, data, offset, bytes);
  device.queue.writeBuffer(uniform, 0, new Int32Array(numbers.map(Number)));
  const entries = [memory, uniform].map((buffer, binding) => ({ binding, resource: { buffer } }));
  const encoder = device.createCommandEncoder();
  if (groups.every(n => n > 0)) {
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, device.createBindGroup({ layout, entries }));
    pass.dispatchWorkgroups(...groups);
    pass.end();
  }
  encoder.copyBufferToBuffer(memory, 0, read, 0, size);
  device.queue.submit([encoder.finish()]);
  await read.mapAsync(GPUMapMode.READ);
  Buffer.from(read.getMappedRange()).copy(data, offset, 0, bytes);
  for (const b of [memory, uniform, read]) b.destroy();
  const error = await device.popErrorScope();
  if (error) console.log(`${module}: ${error.message}`);
}
fs.writeFileSync(path.join(folder, 'data'), data);
process.exit(0);
