// The ports that embedded servers and parts listen on.
import { createServer } from 'node:net'
import { ConfigError } from '#core/config.ts'

/** Where a server is to listen. */
export type PortRequest = {
  /** As the operator knows the server. */
  what: string
  host: string
  /** 0: any free one. */
  port: number
  /** The variable that sets the port. */
  variable: string
}

const FIRST_PORT = 20_000
const PORT_COUNT = 12_000
/** Processes that start together begin this far from each other. */
const PID_SPACING = 97
let next = (process.pid * PID_SPACING) % PORT_COUNT

/**
 * A port of 127.0.0.1 that nobody listens on, another one each time: whoever asked before, here or in a process that was
 * started a moment ago, may not listen yet. Below the range from which systems take ports for outgoing connections, so that
 * it is still free when the server comes back from a restart.
 */
export async function freePort(host: string): Promise<number> {
  for (let attempt = 0; attempt < PORT_COUNT; attempt++) {
    const port = FIRST_PORT + next
    next = (next + 1) % PORT_COUNT
    if (await isFree(host, port)) return port
  }
  throw new ConfigError(
    `No free port between ${FIRST_PORT} and ${FIRST_PORT + PORT_COUNT} was found on ${host}.`,
  )
}

/** Throws when somebody else has the wanted port. */
export async function assertFree(request: PortRequest): Promise<void> {
  if (request.port !== 0 && !(await isFree(request.host, request.port))) throw portInUse(request)
}

/** Launches a server on the wanted port, and says which one that is. Throws when somebody else has it. */
export async function launchOnPort<Server>(
  request: PortRequest,
  launch: (port: number) => Promise<Server>,
): Promise<{ server: Server; port: number }> {
  for (let attempt = 1; ; attempt++) {
    const port = request.port === 0 ? await freePort(request.host) : request.port
    try {
      return { server: await launch(port), port }
    } catch (error) {
      if (!String(error).includes('Address already in use')) throw error
      if (request.port !== 0) throw portInUse(request)
      // Another process took the port that we had found free.
      if (attempt === 5) throw error
    }
  }
}

function portInUse({ what, host, port, variable }: PortRequest): Error {
  return new ConfigError(
    `Port ${port} on ${host} is taken, ${what} cannot listen there. ` +
      `Stop what listens on it, or set ${variable} to another port, e.g. ${variable}=${port + 1} (0: any free port).`,
  )
}

/** Whether nobody listens on that port. */
async function isFree(host: string, port: number): Promise<boolean> {
  const probe = createServer()
  return new Promise((resolve) => {
    probe.once('error', () => resolve(false))
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => resolve(true)))
  })
}
