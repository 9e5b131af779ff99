// Ports of embedded servers and parts.
import { createServer } from 'node:net'
import { ConfigError } from '#core/config.ts'

export type PortRequest = {
  /** The name of the server in error messages. */
  what: string
  host: string
  /** 0: any free port. */
  port: number
  /** The variable that sets the port. */
  variable: string
}

const FIRST_PORT = 20_000
const PORT_COUNT = 12_000
/** Distance between the first ports of processes with consecutive pids. */
const PID_SPACING = 97
let next = (process.pid * PID_SPACING) % PORT_COUNT

/**
 * A free port of `host`. Each call returns another port, because the previous caller may not listen yet. The port is
 * below the ephemeral range, so that it is still free when its server restarts. Throws ConfigError if no port is
 * free.
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

/** Throws ConfigError if the port is in use. */
export async function assertFree(request: PortRequest): Promise<void> {
  if (request.port !== 0 && !(await isFree(request.host, request.port))) throw portInUse(request)
}

/**
 * Launches a server on the requested port, or on a free port for 0, and returns the server and its port. Throws
 * ConfigError if the port is in use.
 */
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
      // Another process took the free port first: the next free port is tried.
      if (attempt === 5) throw error
    }
  }
}

function portInUse({ what, host, port, variable }: PortRequest): Error {
  return new ConfigError(
    `Port ${port} on ${host} is in use: ${what} cannot listen there. ` +
      `Stop the process that listens on it, or set ${variable} to another port, e.g. ${variable}=${port + 1} (0: any free port).`,
  )
}

async function isFree(host: string, port: number): Promise<boolean> {
  const probe = createServer()
  return new Promise((resolve) => {
    probe.once('error', () => resolve(false))
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => resolve(true)))
  })
}
