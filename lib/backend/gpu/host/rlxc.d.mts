// Types of rlxc.mjs.

/** navigator.gpu, or that of the npm package webgpu. */
export interface Gpu {
  requestAdapter(options?: object): Promise<unknown>;
}

export interface Port {
  name: string;
  dtype: string;
  /** Of each axis: a number, or an expression over the sizes. */
  shape: (number | string)[];
}

/** launch.json. `rlxc schema launch` says what it holds. */
export interface Launch {
  name: string;
  symbols: string[];
  inputs: Port[];
  outputs: Port[];
  [key: string]: unknown;
}

/** Bytes of a file on a server, which may ignore ranges. */
export function fetchRange(url: string | URL, offset: number, bytes: number): Promise<Uint8Array>;

export class Program {
  /** source: text of a kernel file; weight: bytes of a weights file; blocking: kernels are compiled on this thread, in turn. */
  static create(gpu: Gpu | undefined, launch: Launch, source: (file: string) => string | Promise<string>,
                weight: (file: string, offset: number, bytes: number) => Uint8Array | Promise<Uint8Array>,
                options?: { blocking?: boolean }): Promise<Program>;
  setSizes(sizes: Record<string, number>): void;
  /** Bytes in the order of launch.inputs; gives those of launch.outputs. Null leaves a state on the device. */
  run(inputs: (ArrayBufferView | ArrayBuffer | null)[]): Promise<(ArrayBuffer | null)[]>;
  /** Of the last run, for data-dependent dims. */
  outputShape(i: number): number[];
}
