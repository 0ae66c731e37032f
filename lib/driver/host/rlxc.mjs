// Carries out launch.json on WebGPU: in a page, or in Node with the npm package `webgpu`.
// All memory that kernels write is one buffer; a weight is a buffer of its own. See the .wgsl files for the bindings.

const kBytes = { bool: 1, i8: 1, u8: 1, i16: 2, u16: 2, f16: 2, bf16: 2, i32: 4, u32: 4, f32: 4, i64: 8, u64: 8, f64: 8 };
const kSlot = 256, kSlots = 256;  // of the uniform buffer that holds the arguments of launches
const padded = n => Math.ceil(n / 4) * 4;
const aligned = n => Math.ceil(n / 64) * 64;

const copyShader = from => `
@group(0) @binding(0) var<storage, read_write> memory: array<u32>;
struct Arguments { to: u32, start: u32, words: u32 }
@group(0) @binding(1) var<uniform> a: Arguments;
${from === 'memory' ? '' : '@group(0) @binding(2) var<storage, read> weight: array<u32>;'}
@compute @workgroup_size(64)
fn copy(@builtin(global_invocation_id) lane: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  for (var i = lane.x; i < a.words; i += groups.x * 64u) { memory[a.to + i] = ${from}[a.start + i]; }
}`;

function evaluate(postfix, symbol) {
  if (typeof postfix === 'number') return postfix;
  const stack = [];
  for (const item of postfix) {
    if (typeof item === 'number') stack.push(item);
    else if (item[0] === '$') stack.push(symbol(item.slice(1)));
    else {
      const b = stack.pop(), a = stack.pop(), quotient = b === 0 ? 0 : Math.floor(a / b);
      const result = { '+': a + b, '-': a - b, '*': a * b, floordiv: quotient, mod: b === 0 ? 0 : a - quotient * b, min: Math.min(a, b), max: Math.max(a, b) }[item];
      if (result === undefined) throw new Error(`launch.json: unknown operator ${item}`);
      stack.push(result);
    }
  }
  return stack[0];
}

export class Program {
  // gpu: navigator.gpu; launch: the object of launch.json; source(file): text of a kernel; weight(file, offset, bytes): its bytes.
  static async create(gpu, launch, source, weight) {
    const adapter = await gpu?.requestAdapter();
    if (!adapter) throw new Error('no WebGPU adapter');
    const requiredLimits = {};
    for (const limit of ['maxBufferSize', 'maxStorageBufferBindingSize', 'maxStorageBuffersPerShaderStage']) requiredLimits[limit] = adapter.limits[limit];
    const p = new Program();
    p.gpu = gpu;
    p.device = await adapter.requestDevice({ requiredLimits });
    p.launch = launch;
    p.groups = new Map();
    p.device.pushErrorScope('validation');
    p.kernels = [];
    for (const k of launch.kernels) p.kernels.push(await p.kernel(await source(k.file), k.name, k.separate.filter(s => s).length));
    p.copyMemory = await p.kernel(copyShader('memory'), 'copy', 0);
    p.copyWeight = await p.kernel(copyShader('weight'), 'copy', 1);
    await p.checked('kernels');
    p.uniform = p.buffer(kSlot * kSlots, GPUBufferUsage.UNIFORM);
    p.slots = new Int32Array(kSlot / 4 * kSlots);
    p.weights = [];
    for (const w of launch.weights) {
      const b = p.buffer(w.bytes, GPUBufferUsage.STORAGE), bytes = new Uint8Array(padded(w.bytes));
      if (w.bytes) bytes.set(await weight(w.file, w.offset, w.stored));
      for (let i = w.stored; w.stored && i < w.bytes; i += i) bytes.copyWithin(i, 0, Math.min(i, w.bytes - i));  // one element, which all are equal to
      p.device.queue.writeBuffer(b, 0, bytes);
      p.weights.push(b);
    }
    p.packed = aligned(launch.memory.packed);
    p.resize(p.packed + launch.memory.load_scratch);
    await p.steps(launch.load, { arena: 0, scratch: p.packed, in: [], out: [] });
    await p.flush();
    if (launch.symbols.length === 0) p.setSizes({});
    return p;
  }

  setSizes(symbols) {
    for (const s of this.launch.symbols) if (symbols[s] === undefined) throw new Error(`the size "${s}" is needed`);
    for (const [s, least, most] of this.launch.ranges)
      if (symbols[s] < least || symbols[s] > most) throw new Error(`the size "${s}" must be within ${least}..${most}`);
    this.sizes = {};
    for (const [text, postfix] of Object.entries(this.launch.sizes)) this.sizes[text] = evaluate(postfix, name => symbols[name]);
    const m = this.launch.memory;
    let at = this.packed;
    const take = bytes => (at += aligned(this.size(bytes))) - aligned(this.size(bytes));
    const out = this.launch.outputs.map(o => ({ at: take(o.bytes) })), states = new Map(this.launch.states);
    this.frame = {
      in: this.launch.inputs.map((input, i) => states.has(i) ? out[states.get(i)] : { at: take(input.bytes) }), out,
      arena: take(m.arena), held: take(m.held), scratch: take(m.scratch), cells: take(m.cells),
    };
    this.resize(at);
  }

  // Bytes in the order of launch.inputs; gives those of launch.outputs. A state whose input is null stays on the device: the
  // output of the run before is its input, and null comes back for its output.
  async run(inputs) {
    const kept = new Map(this.launch.states.filter(([i]) => inputs[i] === null).map(([i, o]) => [o, i]));
    for (const [i, port] of this.launch.inputs.entries()) {
      if ([...kept.values()].includes(i)) continue;
      if (inputs[i]?.byteLength !== this.size(port.bytes)) throw new Error(`the input "${port.name}" has ${this.size(port.bytes)} bytes`);
      this.write(this.frame.in[i], inputs[i]);
    }
    this.device.pushErrorScope('validation');
    await this.graph(0, this.frame);
    await this.flush();
    await this.checked('run');
    const outputs = [];
    for (const [i, port] of this.launch.outputs.entries()) outputs.push(kept.has(i) ? null : await this.read(this.frame.out[i], this.size(port.bytes)));
    return outputs;
  }

  // Memory.
  size(s) { return typeof s === 'number' ? s : this.sizes[s]; }
  buffer(bytes, usage) {
    return this.device.createBuffer({ size: Math.max(16, padded(bytes)), usage: usage | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST });
  }
  resize(bytes) {
    const most = Math.min(this.device.limits.maxStorageBufferBindingSize, this.device.limits.maxBufferSize);
    if (bytes > most) throw new Error(`the program needs ${bytes} bytes in one buffer, this device binds at most ${most}`);
    const old = this.memory;
    this.memory = this.buffer(bytes, GPUBufferUsage.STORAGE);
    this.groups.clear();
    if (!old) return;
    const encoder = this.device.createCommandEncoder();
    if (this.packed) encoder.copyBufferToBuffer(old, 0, this.memory, 0, this.packed);
    this.device.queue.submit([encoder.finish()]);
  }
  write({ at }, bytes) {
    const whole = new Uint8Array(padded(bytes.byteLength));
    whole.set(new Uint8Array(bytes.buffer ?? bytes, bytes.byteOffset ?? 0, bytes.byteLength));
    if (whole.length) this.device.queue.writeBuffer(this.memory, at, whole);
  }
  async read({ at, weight }, bytes) {
    await this.flush();
    const begin = Math.floor(at / 4) * 4, length = Math.max(4, padded(at + bytes - begin));
    const staging = this.device.createBuffer({ size: length, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
    const encoder = this.device.createCommandEncoder();
    encoder.copyBufferToBuffer(weight === undefined ? this.memory : this.weights[weight], begin, staging, 0, length);
    this.device.queue.submit([encoder.finish()]);
    await staging.mapAsync(GPUMapMode.READ);
    const result = staging.getMappedRange().slice(at - begin, at - begin + bytes);
    staging.destroy();
    return result;
  }

  // Launches are collected and submitted together: a compute pass runs them in order.
  async kernel(code, entryPoint, weights) {
    const module = this.device.createShaderModule({ code });
    const entry = (binding, buffer) => ({ binding, visibility: GPUShaderStage.COMPUTE, buffer });
    const entries = [entry(0, { type: 'storage' }), entry(1, { type: 'uniform', hasDynamicOffset: true })];
    for (let w = 0; w < weights; ++w) entries.push(entry(2 + w, { type: 'read-only-storage' }));
    const layout = this.device.createBindGroupLayout({ entries });
    const pipeline = await this.device.createComputePipelineAsync({
      layout: this.device.createPipelineLayout({ bindGroupLayouts: [layout] }), compute: { module, entryPoint },
    });
    return { layout, pipeline, id: this.kernelCount = (this.kernelCount ?? 0) + 1 };
  }
  dispatch(kernel, weights, values, grid) {
    if (grid.some(n => n === 0)) return;
    this.pending ??= [];
    this.slots.set(values, this.pending.length * kSlot / 4);
    const key = [kernel.id, ...weights].join();
    if (!this.groups.has(key)) {
      const resources = [{ buffer: this.memory }, { buffer: this.uniform, size: kSlot }, ...weights.map(w => ({ buffer: this.weights[w] }))];
      this.groups.set(key, this.device.createBindGroup({ layout: kernel.layout, entries: resources.map((resource, binding) => ({ binding, resource })) }));
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
    const weights = from.weight === undefined ? [] : [from.weight], words = padded(bytes) / 4;
    this.dispatch(weights.length ? this.copyWeight : this.copyMemory, weights, [to.at / 4, from.at / 4, words], [Math.min(65535, Math.ceil(words / 64)), 1, 1]);
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
      case 'I': return moved(f.in[p[1]]);
      default: return moved(f.out[p[1]]);
    }
  }
  places(list, f) { return list.map(p => this.place(p, f)); }
  graph(number, f) { return this.steps(this.launch.graphs[number], f); }

  async steps(list, f) {
    for (const s of list) {
      if ('kernel' in s) this.step(s, f);
      else if ('copy' in s) this.copy(this.place(s.copy[0], f), this.place(s.copy[1], f), this.size(s.bytes));
      else if ('if' in s) {
        const yes = await this.value(s.if, f, 0);
        await this.graph(yes ? s.then : s.else, { ...f, arena: f.arena + this.size(s.arena), in: this.places(s.in, f), out: this.places(s.out, f) });
      } else if ('loop' in s) await this.loop(s, f);
      else await this.scan(s, f);
    }
  }

  step(s, f) {
    const k = this.launch.kernels[s.kernel], sizes = s.sizes.map(d => this.size(d)), weights = [];
    const firsts = this.places(s.places, f).map((p, i) => {
      if ((p.weight !== undefined) !== (k.separate[i] === 1)) throw new Error(`${k.name}: argument ${i} is bound to the wrong memory`);
      if (p.weight !== undefined) weights.push(p.weight);
      return p.at / kBytes[k.arguments[i]];
    });
    this.dispatch(this.kernels[s.kernel], weights, [...firsts, ...sizes], k.grid.map(e => evaluate(e, i => sizes[i])));
  }

  async value(p, f, otherwise) {
    if (p === null) return otherwise;
    return new DataView(await this.read(this.place(p, f), 1)).getUint8(0);
  }

  async loop(s, f) {
    const counter = { at: f.cells + s.cells }, condition = { at: counter.at + 64 };
    const trips = s.trips === null ? Infinity : Number(new DataView(await this.read(this.place(s.trips, f), 8)).getBigInt64(0, true));
    const results = this.places(s.results, f), held = this.places(s.held, f), lengths = s.lengths.map(n => this.size(n));
    const body = { ...f, arena: f.arena + this.size(s.arena), in: [counter, condition, ...this.places(s.in, f)] };
    let go = await this.value(s.go, f, 1), i = 0;
    for (; i < trips && go; ++i) {
      await this.flush();
      this.write(counter, new BigInt64Array([BigInt(i)]));
      this.write(condition, new Uint8Array([go]));
      body.out = [held[0]];
      for (let k = 0; k < s.carries; ++k) body.out.push(held[2 * (k + 1) + i % 2]);
      for (let k = s.carries; k < results.length; ++k) {
        if (i >= lengths[k - s.carries]) throw new Error('a loop runs more often than its result has room for');
        body.out.push({ at: results[k].at + i * this.size(s.bytes[k + 1]) });
      }
      await this.graph(s.loop, body);
      go = new DataView(await this.read(held[0], 1)).getUint8(0);
      for (let k = 0; k < s.carries; ++k) body.in[k + 2] = body.out[k + 1];
    }
    if (lengths.some(n => n !== i)) throw new Error('a loop runs less often than its result is long');
    for (let k = 0; k < s.carries; ++k) this.copy(results[k], body.in[k + 2], this.size(s.bytes[k + 1]));
  }

  async scan(s, f) {
    const results = this.places(s.results, f), held = this.places(s.held, f), given = this.places(s.in, f), length = this.size(s.length);
    const row = (base, i, turned, bytes) => ({ ...base, at: base.at + (turned ? length - 1 - i : i) * this.size(bytes) });
    const body = { ...f, arena: f.arena + this.size(s.arena), in: [...given] };
    for (let i = 0; i < length; ++i) {
      body.out = [];
      for (let k = 0; k < s.states; ++k) body.out.push(held[2 * k + i % 2]);
      s.in_bytes.forEach((bytes, k) => body.in[s.states + k] = row(given[s.states + k], i, s.in_reverse[k], bytes));
      for (let k = s.states; k < results.length; ++k) body.out.push(row(results[k], i, s.out_reverse[k - s.states], s.bytes[k]));
      await this.graph(s.scan, body);
      for (let k = 0; k < s.states; ++k) body.in[k] = body.out[k];
    }
    for (let k = 0; k < s.states; ++k) this.copy(results[k], body.in[k], this.size(s.bytes[k]));
  }
}
