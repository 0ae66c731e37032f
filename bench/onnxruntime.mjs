// Times a model in ONNX Runtime: node onnxruntime.mjs MODEL THREADS REPEAT [INPUT.bin ...] prints the line that the main of a
// cpu package prints. OUTPUTS names a folder for the results, as those of the package. BIND gives sizes of symbolic dims ("batch=1,sequence=128"). An output present.X of the shape of an input past_key_values.X is written to its buffer. ONNXRUNTIME names a
// folder in which `npm install --ignore-scripts onnxruntime-node` was run.
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const ort = createRequire(process.env.ONNXRUNTIME + '/')('onnxruntime-node');
const [model, threads, repeat, ...files] = process.argv.slice(2);
const session = await ort.InferenceSession.create(model, {
  intraOpNumThreads: +threads, interOpNumThreads: 1, graphOptimizationLevel: 'all', logSeverityLevel: 3,
});
const kinds = { int64: BigInt64Array, int32: Int32Array, uint8: Uint8Array, int8: Int8Array, bool: Uint8Array, float64: Float64Array };
const sizes = Object.fromEntries((process.env.BIND ?? '').split(',').map(pair => pair.split('=')));
const feeds = {};
session.inputMetadata.forEach(({ name, type, shape }, i) => {
  const bytes = readFileSync(files[i]);
  const data = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  feeds[name] = new ort.Tensor(type, new (kinds[type] ?? Float32Array)(data), shape.map(d => +(sizes[d] ?? d)));
});
const fetches = Object.fromEntries(session.outputNames.map(name => [name, null]));
session.outputMetadata.forEach(({ name, shape }) => {
  const past = feeds[name.replace(/^present\./, 'past_key_values.')];
  if (past && String(past.dims) === String(shape)) fetches[name] = past;
});
const wall = [], busy = [];
for (let i = 0; i <= +repeat; ++i) {
  const start = process.hrtime.bigint(), usage = process.cpuUsage();
  await session.run(feeds, fetches);
  const used = process.cpuUsage(usage);
  if (i > 0) wall.push(Number(process.hrtime.bigint() - start) / 1e6), busy.push((used.user + used.system) / 1e3);
}
if (process.env.OUTPUTS) {
  const results = await session.run(feeds, fetches);
  session.outputNames.forEach((name, i) => writeFileSync(`${process.env.OUTPUTS}/output_${i}.bin`, results[name].data));
}
wall.sort((a, b) => a - b), busy.sort((a, b) => a - b);
const middle = wall.length >> 1, f = x => x.toFixed(4);
console.log(`ms of ${wall.length} runs: wall min ${f(wall[0])} median ${f(wall[middle])}, ` +
            `processor min ${f(busy[0])} median ${f(busy[middle])}`);
