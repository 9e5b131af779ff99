// Loaded into each worker before its own code (`--import`): what is done to a process from inside.

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

// The whole thread stands still, as in a loop without end or a collection of garbage.
process.on('SIGUSR2', () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, BLOCK_MS))
