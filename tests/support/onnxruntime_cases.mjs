// Computes what is expected of cases: node onnxruntime_cases.mjs FOLDER writes FOLDER/CASE/test_data_set_0/output_*.pb with ONNX
// Runtime, for each case in turn that has none, and `refused.txt` with its words where it does not take the model. ONNXRUNTIME names
// a folder in which `npm install --ignore-scripts onnxruntime-node` was run.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const ort = createRequire(process.env.ONNXRUNTIME + '/')('onnxruntime-node');
const kinds = {
  1: ['float32', Float32Array], 2: ['uint8', Uint8Array], 3: ['int8', Int8Array], 4: ['uint16', Uint16Array], 5: ['int16', Int16Array],
  6: ['int32', Int32Array], 7: ['int64', BigInt64Array], 9: ['bool', Uint8Array], 10: ['float16', Uint16Array],
  11: ['float64', Float64Array], 12: ['uint32', Uint32Array], 13: ['uint64', BigUint64Array],
};

function varint(n) {
  const out = [];
  for (n = BigInt(n); n > 127n; n >>= 7n) out.push(Number(n & 127n) | 128);
  return Buffer.from([...out, Number(n)]);
}

function tensorOf(bytes) {
  let at = 0, type, name = '', raw = Buffer.alloc(0);
  const dims = [];
  const integer = () => {
    let value = 0n, shift = 0n, byte;
    do {
      byte = bytes[at++];
      value |= BigInt(byte & 127) << shift;
      shift += 7n;
    } while (byte > 127);
    return Number(value);
  };
  while (at < bytes.length) {
    const key = integer(), value = integer();
    if (key >> 3 === 1) dims.push(value);
    if (key >> 3 === 2) type = value;
    if ((key & 7) !== 2) continue;
    if (key >> 3 === 8) name = bytes.toString('utf8', at, at + value);
    if (key >> 3 === 9) raw = bytes.subarray(at, at + value);
    at += value;
  }
  const [kind, Data] = kinds[type];
  return [name, new ort.Tensor(kind, new Data(new Uint8Array(raw).buffer), dims)];
}

function bytesOf(name, tensor) {
  const type = Object.keys(kinds).find(k => kinds[k][0] === tensor.type);
  const raw = Buffer.from(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength);
  return Buffer.concat([
    ...tensor.dims.map(d => Buffer.concat([varint(8), varint(d)])), varint(16), varint(type),
    varint(66), varint(Buffer.byteLength(name)), Buffer.from(name), varint(74), varint(raw.length), raw,
  ]);
}

const root = process.argv[2];
for (const entry of readdirSync(root).sort()) {
  const data = `${root}/${entry}/test_data_set_0`;
  if (!existsSync(data) || existsSync(`${data}/output_0.pb`) || existsSync(`${data}/refused.txt`)) continue;
  writeFileSync(`${data}/refused.txt`, 'ended the process');  // until it is known
  try {
    const session = await ort.InferenceSession.create(`${root}/${entry}/model.onnx`, {
      intraOpNumThreads: 1, interOpNumThreads: 1, graphOptimizationLevel: 'disabled', logSeverityLevel: 4,
    });
    const feeds = {};
    for (const file of readdirSync(data).filter(f => f.startsWith('input_'))) {
      const [name, tensor] = tensorOf(readFileSync(`${data}/${file}`));
      if (session.inputNames.includes(name)) feeds[name] = tensor;
    }
    const results = await session.run(feeds);
    session.outputNames.forEach((name, i) => writeFileSync(`${data}/output_${i}.pb`, bytesOf(name, results[name])));
    await session.release();
    writeFileSync(`${data}/refused.txt`, '');
  } catch (e) {
    writeFileSync(`${data}/refused.txt`, String(e.message).split('\n')[0] || 'no reason');
  }
}
