// Faults inside a worker. Node loads this file before the worker's own code (`--import`).

const BLOCK_MS = 6000

const skew_ms = Number(process.env.TORTURE_CLOCK_MS ?? 0)
if (skew_ms !== 0) {
  const RealDate = Date
  globalThis.Date = new Proxy(RealDate, {
    construct: (target, args: unknown[], called) =>
      Reflect.construct(target, args.length === 0 ? [RealDate.now() + skew_ms] : args, called) as Date,
    get: (target, name, receiver) =>
      name === 'now' ? () => RealDate.now() + skew_ms : (Reflect.get(target, name, receiver) as unknown),
  })
}

// Blocks the whole thread, like an endless loop or a long garbage collection.
process.on('SIGUSR2', () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, BLOCK_MS))
