// Runs models in ONNX Runtime on test data and compares with what is expected: scripts/run-onnx.mjs FOLDER MODEL DATA ...
// FOLDER: one where `npm install --ignore-scripts onnxruntime-node` was run. DATA: a folder with input_i.pb and output_i.pb.
// One line a model; the exit code is the number of those that fail.
import { createRequire } from "node:module";
import fs from "node:fs";
import path from "node:path";

const [folder, ...rest] = process.argv.slice(2);
const ort = createRequire(path.resolve(folder) + "/")("onnxruntime-node");

// The fields of a protobuf message as [number, value]: integers as bigint, bytes as buffers.
function* fields(buffer) {
  let at = 0;
  const varint = () => {
    let v = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = BigInt(buffer[at++]);
      v |= (byte & 127n) << shift;
      if (byte < 128n) return v;
    }
  };
  while (at < buffer.length) {
    const key = Number(varint());
    if ((key & 7) === 0) yield [key >> 3, varint()];
    else if ((key & 7) === 1) yield [key >> 3, buffer.subarray(at, (at += 8))];
    else if ((key & 7) === 5) yield [key >> 3, buffer.subarray(at, (at += 4))];
    else {
      const length = Number(varint());
      yield [key >> 3, buffer.subarray(at, (at += length))];
    }
  }
}

// TensorProto.DataType: the type in ONNX Runtime, the array, bytes of an element.
const types = { 1: ["float32", Float32Array, 4], 2: ["uint8", Uint8Array, 1], 3: ["int8", Int8Array, 1], 6: ["int32", Int32Array, 4],
  7: ["int64", BigInt64Array, 8], 9: ["bool", Uint8Array, 1], 11: ["float64", Float64Array, 8] };

function tensor(file) {
  const t = { dims: [], name: "" }, strings = [];
  const packed = (v, list) => {
    if (typeof v === "bigint") return list.push(v);
    for (const [, each] of fields(Buffer.concat([...v].reduce((out, byte, i, all) => {
      if (i === 0 || all[i - 1] < 128) out.push([]);
      out[out.length - 1].push(byte);
      return out;
    }, []).map((bytes) => Buffer.from([8, ...bytes]))))) list.push(each);
  };
  const integers = [], floats = [];
  for (const [field, v] of fields(fs.readFileSync(file))) {
    if (field === 1) { const d = []; packed(v, d); t.dims.push(...d.map(Number)); }
    else if (field === 2) t.type = Number(v);
    else if (field === 8) t.name = v.toString();
    else if (field === 9) t.raw = v;
    else if (field === 4) for (let i = 0; i < v.length; i += 4) floats.push(v.readFloatLE(i));
    else if (field === 5 || field === 7) packed(v, integers);
    else if (field === 6) strings.push(v.toString());
  }
  if (t.type === 8) return { name: t.name, tensor: new ort.Tensor("string", strings, t.dims) };
  if (!types[t.type]) throw new Error(`no test data of type ${t.type}`);
  const [name, Type, size] = types[t.type];
  let data;
  if (t.raw) data = new Type(t.raw.buffer.slice(t.raw.byteOffset, t.raw.byteOffset + Math.floor(t.raw.length / size) * size));
  else if (floats.length) data = new Type(floats);
  else data = Type === BigInt64Array ? BigInt64Array.from(integers, (v) => BigInt.asIntN(64, v)) : Type.from(integers, (v) => Number(BigInt.asIntN(64, v)));
  return { name: t.name, tensor: new ort.Tensor(name, data, t.dims) };
}

function all(data, prefix) {
  const out = [];
  for (let i = 0; fs.existsSync(path.join(data, `${prefix}_${i}.pb`)); ++i) out.push(tensor(path.join(data, `${prefix}_${i}.pb`)));
  return out;
}

let failed = 0;
for (let i = 0; i + 1 < rest.length; i += 2) {
  const [model, data] = [rest[i], rest[i + 1]];
  try {
    const session = await ort.InferenceSession.create(model, { logSeverityLevel: 3 });
    const inputs = {};
    all(data, "input").forEach((t, k) => (inputs[session.inputNames[k]] = t.tensor));
    const results = await session.run(inputs);
    let worst = 0;
    all(data, "output").forEach((want, k) => {
      const got = results[session.outputNames[k]];
      if (String(got.dims) !== String(want.tensor.dims)) throw new Error(`${session.outputNames[k]} is [${got.dims}], not [${want.tensor.dims}]`);
      for (let e = 0; e < got.data.length; ++e) {
        if (want.tensor.type === "string") {
          if (got.data[e] !== want.tensor.data[e]) throw new Error(`"${got.data[e]}" is not "${want.tensor.data[e]}"`);
          continue;
        }
        const [a, b] = [Number(got.data[e]), Number(want.tensor.data[e])];
        if (!(Number.isNaN(a) && Number.isNaN(b)) && a !== b) worst = Math.max(worst, Math.abs(a - b) / (1e-5 + 1e-3 * Math.abs(b)));
      }
    });
    if (!(worst <= 1)) throw new Error(`out of tolerance by ${worst.toFixed(2)}`);
    console.log(`ok    ${model}`);
  } catch (error) {
    ++failed;
    console.log(`FAIL  ${model}: ${String(error.message).slice(0, 300)}`);
  }
}
process.exit(Math.min(failed, 100));
