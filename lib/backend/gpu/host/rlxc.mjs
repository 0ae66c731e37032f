// Runs launch.json on WebGPU: in a page, or in Node with the npm package `webgpu`.
// All memory that kernels write is one address range; each weight is another. A range is a list of buffers that the device can
// bind: { begin, buffer }. See the .wgsl files for the bindings.

const kBytes = { bool: 1, i8: 1, u8: 1, i16: 2, u16: 2, f16: 2, bf16: 2, i32: 4, u32: 4, f32: 4, i64: 8, u64: 8, f64: 8 };
const kSlot = 256, kSlots = 256;  // of the uniform buffer for launch arguments
const kReleased = 64 << 20;  // bytes of weights that are released together while a program is loaded
const kAhead = 4, kAheadBytes = 64 << 20;  // weights that are requested before they are needed, and their bytes
const padded = n => Math.ceil(n / 4) * 4;
const aligned = n => Math.ceil(n / 64) * 64;

const viewOf = bytes => ArrayBuffer.isView(bytes) ? new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength) : new DataView(bytes);

// Kernels compute 64-bit integers in 32 bits, so larger values are errors.
function checkWide(what, dtype, bytes) {
  if (dtype !== 'i64' && dtype !== 'u64') return;
  const view = viewOf(bytes);
  for (let at = 0; at + 8 <= view.byteLength; at += 8) {
    if (view.getInt32(at + 4, true) === (dtype === 'i64' ? view.getInt32(at, true) >> 31 : 0)) continue;
    const value = dtype === 'i64' ? view.getBigInt64(at, true) : view.getBigUint64(at, true);
    throw new Error(`${what} holds ${value}: kernels in WGSL compute integers in 32 bits`);
  }
}

function checkIndices(name, largest, bytes) {
  const view = viewOf(bytes);
  for (let at = 0; at + 8 <= view.byteLength; at += 8) {
    const index = view.getBigInt64(at, true);
    if (index < 0n || index > BigInt(largest)) throw new Error(`the input "${name}" holds ${index}, which is not within 0..${largest}`);
  }
}

// Copies bytes at any alignment: a thread writes whole words and preserves their other bytes.
const copyShader = from => `
@group(0) @binding(0) var<storage, read_write> memory: array<u32>;
struct Arguments { to: u32, start: u32, bytes: u32 }
@group(0) @binding(1) var<uniform> a: Arguments;
${from === 'memory' ? '' : '@group(0) @binding(2) var<storage, read> weight: array<u32>;'}
@compute @workgroup_size(64)
fn copy(@builtin(global_invocation_id) lane: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let end = a.to + a.bytes;
  for (var i = a.to / 4u + lane.x; i < (end + 3u) / 4u; i += groups.x * 64u) {
    if (i * 4u >= a.to && i * 4u + 4u <= end && a.to % 4u == a.start % 4u) {
      memory[i] = ${from}[(i * 4u - a.to + a.start) / 4u];
      continue;
    }
    var word = memory[i];
    for (var at = max(a.to, i * 4u); at < min(end, i * 4u + 4u); at++) {
      let source = at - a.to + a.start;
      word = insertBits(word, ${from}[source / 4u] >> (source % 4u * 8u), at % 4u * 8u, 8u);
    }
    memory[i] = word;
  }
}`;

function evaluate(postfix, symbol, named) {
  if (typeof postfix === 'number') return postfix;
  const stack = [];
  for (const item of postfix) {
    if (typeof item === 'number') stack.push(item);
    else if (item[0] === '$') stack.push(symbol(item.slice(1)));
    else if (item[0] === '#') stack.push(named(item));
    else {
      const b = stack.pop(), a = stack.pop(), quotient = b === 0 ? 0 : Math.floor(a / b);
      const result = { '+': a + b, '-': a - b, '*': a * b, floordiv: quotient, mod: b === 0 ? 0 : a - quotient * b, min: Math.min(a, b), max: Math.max(a, b) }[item];
      if (result === undefined) throw new Error(`launch.json: unknown operator ${item}`);
      stack.push(result);
    }
  }
  return stack[0];
}

// The functions of the language feature packed_4x8_integer_dot_product, for implementations without it.
const kFourBytes = (word, type) => `bitcast<vec4<${type}>>(vec4<u32>(${word}) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u)`;
const kPackedDots = [['dot4I8Packed', 'i32'], ['dot4U8Packed', 'u32']].map(([name, type]) =>
  `fn ${name}(a: u32, b: u32) -> ${type} {\n  return dot(${kFourBytes('a', type)}, ${kFourBytes('b', type)});\n}\n`).join('');

// Requests weights in this order, some of them ahead. Returns what gives the bytes of each, once and in this order.
function ahead(order, bytesOf, request) {
  const requests = [];
  let next = 0, bytes = 0;
  const fill = () => {
    while (next < order.length && requests.length < kAhead && (requests.length === 0 || bytes + bytesOf(order[next]) <= kAheadBytes)) {
      const arriving = (async i => request(i))(order[next]);
      arriving.catch(() => {});  // thrown where the weight is needed
      bytes += bytesOf(order[next++]);
      requests.push(arriving);
    }
  };
  fill();
  return async i => {
    const arrived = await requests[0];
    requests.shift();
    bytes -= bytesOf(i);
    fill();
    return arrived;
  };
}

const firstAnswers = new Map();  // by URL: the whole file of a server without ranges, or null

// Bytes of a file on a server. A server that ignores the range is asked once.
export async function fetchRange(url, offset, bytes) {
  if (bytes === 0) return new Uint8Array(0);
  const key = String(url), first = firstAnswers.get(key), whole = first && await first;
  if (whole) return whole.subarray(offset, offset + bytes);
  const answer = fetch(url, { headers: { Range: `bytes=${offset}-${offset + bytes - 1}` } }).then(async a => {
    if (!a.ok) throw new Error(`${url}: ${a.status}`);
    return { all: new Uint8Array(await a.arrayBuffer()), isRange: a.status === 206 };
  });
  if (!first) firstAnswers.set(key, answer.then(a => a.isRange ? null : a.all, () => null));
  const { all, isRange } = await answer;
  return isRange ? all : all.subarray(offset, offset + bytes);
}

export class Program {
  // gpu: navigator.gpu; launch: the object of launch.json; source(file): text of a kernel; weight(file, offset, bytes): its bytes.
  // blocking: kernels are compiled on this thread, in turn. Without a page to keep alive that saves Node from polling.
  static async create(gpu, launch, source, weight, { blocking = false } = {}) {
    const adapter = await gpu?.requestAdapter();
    if (!adapter) throw new Error('no WebGPU adapter');
    const requiredLimits = {};
    for (const limit of ['maxBufferSize', 'maxStorageBufferBindingSize', 'maxStorageBuffersPerShaderStage']) requiredLimits[limit] = adapter.limits[limit];
    const p = new Program();
    p.gpu = gpu;
    const f16 = adapter.features.has('shader-f16') && launch.kernels.some(k => k.f16_file);
    p.device = await adapter.requestDevice({ requiredLimits, requiredFeatures: f16 ? ['shader-f16'] : [] });
    p.launch = launch;
    p.groups = new Map();
    p.device.pushErrorScope('validation');
    p.blocking = blocking;
    // Weights arrive while kernels are compiled.
    const weightsOf = s => Array.isArray(s) && s.length === 3 && s[0] === 'W' ? [s[1]] : s && typeof s === 'object' ? Object.values(s).flatMap(weightsOf) : [];
    const last = new Map(), read = launch.load.map(s => new Set(weightsOf(s)));
    read.forEach((weights, i) => weights.forEach(w => last.set(w, i)));
    const packed = [...last.keys()];
    weightsOf(launch.graphs).forEach(w => last.delete(w));
    const kept = [...launch.weights.keys()].filter(i => !last.has(i));
    if (launch.weights.some(w => w.bytes && w.file === launch.weights_file)) {
      const found = new TextDecoder().decode(await weight(launch.weights_file, 0, launch.weights_header.length));
      if (found !== launch.weights_header) throw new Error(`${launch.weights_file} belongs to another model`);
    }
    const bytesOf = ahead([...kept, ...packed.filter(i => last.has(i))], i => launch.weights[i].bytes, i => {
      const w = launch.weights[i];
      return w.bytes ? weight(w.file, w.offset, w.stored) : new Uint8Array(0);
    });
    const kernels = Promise.all([
      ...launch.kernels.map(async k => p.kernel(await source((f16 && k.f16_file) || k.file), k.name, k.bindings, k.separate)),
      p.kernel(copyShader('memory'), 'copy', [[0, 1]], [0]), p.kernel(copyShader('weight'), 'copy', [[0, 1], [1, 1]], [0, 1]),
    ]);
    p.kernels = await kernels;
    [p.copyMemory, p.copyWeight] = p.kernels.splice(-2);
    await p.checked('kernels');
    p.uniform = p.buffer(kSlot * kSlots, GPUBufferUsage.UNIFORM);
    p.slots = new Int32Array(kSlot / 4 * kSlots);
    p.weights = [];
    p.weights = launch.weights.map(() => null);
    const load = async i => {
      const w = launch.weights[i];
      const pieces = p.pieces(w.bytes, launch.max_binding ? Array.from({ length: Math.ceil(w.bytes / launch.max_binding) - 1 }, (_, i) => (i + 1) * launch.max_binding) : []);
      const bytes = new Uint8Array(padded(w.bytes));
      bytes.set(await bytesOf(i));
      for (let i = w.stored; w.stored && i < w.bytes; i += i) bytes.copyWithin(i, 0, Math.min(i, w.bytes - i));  // one element, repeated
      checkWide(`the weight "${w.name}"`, w.dtype, bytes.subarray(0, w.bytes));
      p.store(pieces, 0, bytes);
      p.weights[i] = pieces;
    };
    p.packed = aligned(launch.memory.packed);
    const most = Object.fromEntries(launch.ranges.map(([s, , n]) => [s, n]));  // kernels are bound for the memory layout at maximum sizes
    if (launch.symbols.every(s => s in most)) p.setSizes(most);
    else p.resize(p.packed + launch.memory.load_scratch);
    // A weight that only load steps read is on the device from the first to the last of them.
    for (const i of kept) await load(i);
    const done = [];
    const frame = { arena: 0, scratch: p.frame?.scratch ?? p.packed, in: [], out: [] };
    let bytes = 0;
    const release = async () => {
      await p.flush();
      for (const w of done.splice(0)) p.weights[w].forEach(({ buffer }) => buffer.destroy());
      bytes = 0;
    };
    for (const [i, weights] of read.entries()) {
      for (const w of weights) if (!p.weights[w]) await load(w);
      await p.steps([launch.load[i]], frame);
      for (const w of weights) if (last.get(w) === i) done.push(w), bytes += launch.weights[w].bytes;
      if (bytes >= kReleased) await release();
    }
    await release();
    p.groups.clear();  // those of released weights
    return p;
  }

  setSizes(symbols) {
    for (const s of this.launch.symbols)
      if (!Number.isSafeInteger(symbols[s]) || symbols[s] < 0) throw new Error(`the size "${s}" is needed: ${s}=N`);
    for (const [s, least, most] of this.launch.ranges)
      if (symbols[s] < least || symbols[s] > most) throw new Error(`the size "${s}" must be within ${least}..${most}`);
    this.symbols = { ...symbols };
    this.sizes = {};
    const known = item => item[0] === '#' ? this.sizes[item] !== undefined : item[0] !== '$' || symbols[item.slice(1)] !== undefined;
    for (const [text, postfix] of Object.entries(this.launch.sizes))  // each after those that it names
      if (postfix.every(known)) this.sizes[text] = evaluate(postfix, name => symbols[name], name => this.sizes[name]);
    this.checkEqual(this.launch.equal);
    const m = this.launch.memory;
    let at = this.packed;
    const take = bytes => (at += aligned(this.size(bytes))) - aligned(this.size(bytes));
    const out = this.launch.outputs.map(o => ({ at: take(o.room) })), states = new Map(this.launch.states);
    this.frame = {
      in: this.launch.inputs.map((input, i) => states.has(i) ? out[states.get(i)] : { at: take(input.room) }), out,
      arena: take(m.arena), held: take(m.held), scratch: take(m.scratch), cells: take(m.cells),
    };
    this.resize(at);
  }

  // Takes bytes in the order of launch.inputs and returns those of launch.outputs. A state whose input is null stays on the
  // device: its input is the output of the previous run, and its output is returned as null.
  async run(inputs) {
    const kept = new Map(this.launch.states.filter(([i]) => inputs[i] === null).map(([i, o]) => [o, i]));
    for (const [i, port] of this.launch.inputs.entries()) {
      if ([...kept.values()].includes(i)) continue;
      if (inputs[i]?.byteLength !== this.size(port.bytes)) throw new Error(`the input "${port.name}" has ${this.size(port.bytes)} bytes`);
      checkWide(`the input "${port.name}"`, port.dtype, inputs[i]);
      if (port.largest !== undefined) checkIndices(port.name, this.size(port.largest), inputs[i]);
      this.write(this.frame.in[i], inputs[i]);
    }
    this.device.pushErrorScope('validation');
    const counter = this.launch.bad_indices === null ? null : { at: this.frame.cells + this.launch.bad_indices };
    if (counter) this.write(counter, new Uint8Array(8));
    await this.graph(0, this.frame);
    await this.flush();
    await this.checked('run');
    const bad = counter ? await this.i64(counter) : 0;
    if (bad > 0) throw new Error(`${bad} indices that the inputs give are out of range`);
    const outputs = [];
    for (const [i, port] of this.launch.outputs.entries()) outputs.push(kept.has(i) ? null : await this.read(this.frame.out[i], this.size(port.bytes)));
    return outputs;
  }
  outputShape(i) { return this.launch.outputs[i].shape.map(d => this.size(d)); }  // of the last run, for data-dependent dims

  // Memory.
  size(s, named = {}) {
    if (typeof s === 'number') return s;
    return this.sizes[s] ?? (named[s] ??= evaluate(this.launch.sizes[s], name => {
      if (this.symbols?.[name] === undefined) throw new Error(`the size "${name}" is not known yet`);
      return this.symbols[name];
    }, name => this.size(name, named)));
  }
  // Data-dependent dims.
  extent(number) { return this.symbols[this.launch.extents[number].name]; }
  setExtent(number, n) {
    const { name, bound } = this.launch.extents[number];
    if (n < 0 || n > this.size(bound)) throw new Error(`dynamic size: "${name}" is ${n}, memory was planned for 0..${this.size(bound)}`);
    this.symbols[name] = n;
  }
  async i64(address) { return Number(new DataView(await this.read(address, 8)).getBigInt64(0, true)); }
  buffer(bytes, usage) {
    return this.device.createBuffer({ label: `${this.bufferCount = (this.bufferCount ?? 0) + 1}`, size: Math.max(16, Math.ceil(bytes / 16) * 16), usage: usage | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST });
  }
  // Returns buffers for this many bytes, split at these addresses. Those beyond the end (before sizes are set) are empty.
  pieces(bytes, cuts) {
    const begins = [0, ...cuts], most = Math.min(this.device.limits.maxStorageBufferBindingSize, this.device.limits.maxBufferSize);
    return begins.map((begin, i) => {
      const size = Math.max(0, Math.min(begins[i + 1] ?? bytes, bytes) - begin);
      if (size > most) throw new Error(`the program needs ${size} bytes in one buffer, this device binds at most ${most}${this.remedy()}`);
      return { begin, buffer: this.buffer(size, GPUBufferUsage.STORAGE) };
    });
  }
  remedy() {
    const open = this.launch.symbols.filter(s => !this.launch.ranges.some(([name]) => name === s));
    return open.length ? `; compile with --range ${open.map(s => s + '=1..N').join()} to have memory bound in pieces` : '; compile with a smaller --max-binding';
  }
  // Returns the buffers of this many bytes from an address on: [buffer, offset in it, offset from the address, bytes].
  parts(pieces, at, bytes) {
    const parts = [];
    for (let done = 0, i = pieces.findLastIndex(p => p.begin <= at); done < bytes; ++i) {
      const offset = at + done - pieces[i].begin, n = Math.min(bytes, (pieces[i + 1]?.begin ?? Infinity) - at) - done;
      parts.push([pieces[i].buffer, offset, done, n]);
      done += n;
    }
    return parts;
  }
  resize(bytes) {
    const old = this.memory;
    this.memory = this.pieces(bytes, this.launch.cuts);
    this.groups.clear();
    if (!old) return;
    const encoder = this.device.createCommandEncoder(), kept = this.parts(this.memory, 0, this.packed);
    for (const [i, [buffer, , , n]] of kept.entries()) encoder.copyBufferToBuffer(old[i].buffer, 0, buffer, 0, n);
    this.device.queue.submit([encoder.finish()]);
  }
  store(pieces, at, whole) {
    for (const [buffer, offset, done, n] of this.parts(pieces, at, whole.length)) this.device.queue.writeBuffer(buffer, offset, whole, done, n);
  }
  write({ at }, bytes) {
    const whole = new Uint8Array(padded(bytes.byteLength));
    whole.set(new Uint8Array(bytes.buffer ?? bytes, bytes.byteOffset ?? 0, bytes.byteLength));
    this.store(this.memory, at, whole);
  }
  async read({ at, weight }, bytes) {
    await this.flush();
    const begin = Math.floor(at / 4) * 4, length = Math.max(4, padded(at + bytes - begin));
    const staging = this.device.createBuffer({ size: length, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
    const encoder = this.device.createCommandEncoder();
    for (const [buffer, offset, done, n] of this.parts(this.holder(weight), begin, length)) encoder.copyBufferToBuffer(buffer, offset, staging, done, n);
    this.device.queue.submit([encoder.finish()]);
    await staging.mapAsync(GPUMapMode.READ);
    const result = staging.getMappedRange().slice(at - begin, at - begin + bytes);
    staging.destroy();
    return result;
  }
  holder(weight) { return weight === undefined ? this.memory : this.weights[weight]; }

  // Launches are collected and submitted together: a compute pass runs them in order.
  // Binding 0 of the shader is the first buffer, 1 the uniform buffer; the other buffers follow.
  async kernel(code, entryPoint, bindings, separate) {
    if (/\bdot4[IU]8Packed\b/.test(code) && !this.gpu.wgslLanguageFeatures?.has('packed_4x8_integer_dot_product')) code += kPackedDots;
    const module = this.device.createShaderModule({ code }), types = [];
    for (const [i, [first, count]] of bindings.entries())
      for (let b = first; b < first + count; ++b) types[b] = separate[i] ? 'read-only-storage' : 'storage';
    const most = this.device.limits.maxStorageBuffersPerShaderStage;
    if (types.length > most) throw new Error(`the kernel ${entryPoint} binds ${types.length} buffers at a time, this device has ${most} bindings`);
    const entry = (binding, buffer) => ({ binding, visibility: GPUShaderStage.COMPUTE, buffer });
    const entries = [entry(1, { type: 'uniform', hasDynamicOffset: true }), ...types.map((type, b) => entry(b === 0 ? 0 : b + 1, { type }))];
    const layout = this.device.createBindGroupLayout({ entries });
    const wanted = { layout: this.device.createPipelineLayout({ bindGroupLayouts: [layout] }), compute: { module, entryPoint } };
    const pipeline = this.blocking ? this.device.createComputePipeline(wanted) : await this.device.createComputePipelineAsync(wanted);
    return { layout, pipeline, id: this.kernelCount = (this.kernelCount ?? 0) + 1 };
  }
  dispatch(kernel, buffers, values, grid) {
    if (grid.some(n => n === 0)) return;
    this.pending ??= [];
    this.slots.set(values, this.pending.length * kSlot / 4);
    const key = [kernel.id, ...buffers.map(b => b.label)].join();
    if (!this.groups.has(key)) {
      const entries = buffers.map((buffer, b) => ({ binding: b === 0 ? 0 : b + 1, resource: { buffer } }));
      entries.push({ binding: 1, resource: { buffer: this.uniform, size: kSlot } });
      this.groups.set(key, this.device.createBindGroup({ layout: kernel.layout, entries }));
    }
    this.pending.push([kernel.pipeline, this.groups.get(key), grid]);
    if (this.pending.length === kSlots) this.submit();
  }
  submit() {
    if (!this.pending?.length) return;
    this.device.queue.writeBuffer(this.uniform, 0, this.slots, 0, this.pending.length * kSlot / 4);
    const encoder = this.device.createCommandEncoder(), pass = encoder.beginComputePass();
    for (const [i, [pipeline, group, grid]] of this.pending.entries()) {
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, group, [i * kSlot]);
      pass.dispatchWorkgroups(...grid);
    }
    pass.end();
    this.device.queue.submit([encoder.finish()]);
    this.pending = [];
  }
  async flush() {
    this.submit();
    await this.device.queue.onSubmittedWorkDone();
  }
  async checked(what) {
    const error = await this.device.popErrorScope();
    if (error) throw new Error(`${what}: ${error.message}`);
  }

  copy(to, from, bytes) {
    for (const [target, first, done, length] of this.parts(this.memory, to.at, bytes))
      for (const [source, start, more, n] of this.parts(this.holder(from.weight), from.at + done, length))
        this.dispatch(source === target ? this.copyMemory : this.copyWeight, source === target ? [target] : [target, source],
          [first + more, start, n], [Math.min(65535, Math.ceil(n / 256)), 1, 1]);
  }

  // Steps.
  place(p, f) {
    if (p === null) return null;
    const offset = this.size(p[p.length - 1]), moved = base => ({ ...base, at: base.at + offset });
    switch (p[0]) {
      case 'W': return { at: offset, weight: p[1] };
      case 'P': return { at: offset };
      case 'A': return { at: f.arena + offset };
      case 'S': return { at: f.scratch + offset };
      case 'H': return { at: f.held + offset };
      case 'C': return { at: f.cells + offset };
      case 'I': return moved(f.in[p[1]]);
      default: return moved(f.out[p[1]]);
    }
  }
  places(list, f) { return list.map(p => this.place(p, f)); }
  graph(number, f) { return this.steps(this.launch.graphs[number], f); }

  // Checks pairs of sizes that the model requires to be equal.
  checkEqual(pairs) {
    for (let i = 0; i < pairs.length; i += 2)
      if (this.size(pairs[i]) !== this.size(pairs[i + 1])) throw new Error(`the model needs ${pairs[i]} = ${pairs[i + 1]}`);
  }

  async steps(list, f) {
    for (const s of list) {
      this.checkEqual(s.equal ?? []);
      if ('kernel' in s) {
        this.step(s, f);
        for (const e of s.extents ?? []) this.setExtent(e, await this.i64({ at: f.cells + 8 * e }));
      } else if ('copy' in s) this.copy(this.place(s.copy[0], f), this.place(s.copy[1], f), this.size(s.bytes));
      else if ('if' in s) {
        const yes = await this.value(s.if, f, 0);
        this.checkEqual(yes ? s.then_equal : s.else_equal);
        await this.graph(yes ? s.then : s.else, { ...f, arena: f.arena + this.size(s.arena), in: this.places(s.in, f), out: this.places(s.out, f) });
        for (const [e, ...after] of s.extents) this.setExtent(e, this.size(after[yes ? 0 : 1]));
      } else if ('loop' in s) await this.loop(s, f);
      else await this.scan(s, f);
    }
  }

  step(s, f) {
    const k = this.launch.kernels[s.kernel], sizes = s.sizes.map(d => this.size(d)), bound = [];
    const firsts = this.places(s.places, f).map((p, i) => {
      const pieces = this.holder(p.weight), [binding, count] = k.bindings[i];
      const first = count === pieces.length ? 0 : pieces.findLastIndex(m => m.begin <= p.at);
      for (let b = 0; b < count; ++b) {
        const buffer = pieces[first + b]?.buffer;
        bound[binding + b] ??= buffer;
        if (!buffer || bound[binding + b] !== buffer || (p.weight !== undefined) !== (k.separate[i] === 1))
          throw new Error(`${k.name}: argument ${i} is bound to the wrong memory`);
      }
      return (p.at - pieces[first].begin) / kBytes[k.arguments[i]];
    });
    this.dispatch(this.kernels[s.kernel], bound, [...firsts, ...sizes], k.grid.map(e => evaluate(e, i => sizes[i])));
  }

  async value(p, f, otherwise) {
    if (p === null) return otherwise;
    return new DataView(await this.read(this.place(p, f), 1)).getUint8(0);
  }

  // Stacked results of a loop: each iteration writes a row. A row with a data-dependent shape is written to a buffer and copied.
  stacked(s, results, held) {
    const first = results.length - s.stacked.length;
    for (const [, , changing] of s.stacked) for (const e of changing) this.setExtent(e, 0);
    return s.stacked.map(([rows, extent, changing], k) => ({
      rows, extent, changing, bytes: s.row_bytes[k], to: results[first + k], held: held[held.length - 2 * (s.stacked.length - k)], turned: s.out_reverse?.[k],
    }));
  }
  row(k, i) { return { ...k.to, at: k.to.at + (k.turned ? this.size(k.rows) - 1 - i : i) * this.size(k.bytes) }; }
  endRows(list, i) {
    for (const k of list.filter(k => k.changing.length)) {
      const shape = k.changing.map(e => this.extent(e)).join();
      if (i > 0 && shape !== k.shape) throw new Error('dynamic size: rows of one result differ in shape');
      k.shape = shape;
      this.copy(this.row(k, i), k.held, this.size(k.bytes));
    }
  }

  async loop(s, f) {
    const counter = { at: f.cells + s.cells }, condition = { at: counter.at + 64 };
    const trips = s.trips === null ? Infinity : await this.i64(this.place(s.trips, f));
    const results = this.places(s.results, f), held = this.places(s.held, f), rows = this.stacked(s, results, held);
    const body = { ...f, arena: f.arena + this.size(s.arena), in: [counter, condition, ...this.places(s.in, f)] };
    for (const [e, first] of s.extents) this.setExtent(e, this.size(first));
    let go = await this.value(s.go, f, 1), i = 0;
    for (; i < trips && go; ++i) {
      await this.flush();
      this.write(counter, new BigInt64Array([BigInt(i)]));
      this.write(condition, new Uint8Array([go]));
      body.out = [held[0]];
      for (let k = 0; k < s.carries; ++k) body.out.push(held[2 * (k + 1) + i % 2]);
      for (const k of rows) {
        if (i >= this.size(k.rows)) throw new Error('dynamic size: a loop runs more often than its result has room for');
        body.out.push(k.changing.length ? k.held : this.row(k, i));
      }
      await this.graph(s.loop, body);
      go = new DataView(await this.read(held[0], 1)).getUint8(0);
      this.endRows(rows, i);
      for (let k = 0; k < s.carries; ++k) body.in[k + 2] = body.out[k + 1];
      const next = s.extents.map(([, , n]) => this.size(n));
      for (const [k, [e]] of s.extents.entries()) this.setExtent(e, next[k]);
    }
    for (const k of rows) {
      if (k.extent !== null) this.setExtent(k.extent, i);
      else if (this.size(k.rows) !== i) throw new Error('dynamic size: a loop runs less often than its result is long');
    }
    for (let k = 0; k < s.carries; ++k) this.copy(results[k], body.in[k + 2], this.size(s.bytes[k]));
  }

  async scan(s, f) {
    const results = this.places(s.results, f), held = this.places(s.held, f), given = this.places(s.in, f), length = this.size(s.length);
    const rows = this.stacked(s, results, held);
    const body = { ...f, arena: f.arena + this.size(s.arena), in: [...given] };
    for (let i = 0; i < length; ++i) {
      body.out = [];
      for (let k = 0; k < s.states; ++k) body.out.push(held[2 * k + i % 2]);
      s.in_bytes.forEach((bytes, k) => {
        const base = given[s.states + k];
        body.in[s.states + k] = { ...base, at: base.at + (s.in_reverse[k] ? length - 1 - i : i) * this.size(bytes) };
      });
      for (const k of rows) body.out.push(k.changing.length ? k.held : this.row(k, i));
      await this.graph(s.scan, body);
      this.endRows(rows, i);
      for (let k = 0; k < s.states; ++k) body.in[k] = body.out[k];
    }
    for (let k = 0; k < s.states; ++k) this.copy(results[k], body.in[k], this.size(s.bytes[k]));
  }
}
