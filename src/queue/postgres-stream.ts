// Lets node-postgres connect like our own pools: several hosts, TLS and errors are those of `core/postgres`.
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import type { ClientConfig } from 'pg'
import { createTarget, type DatabaseTarget } from '#core/postgres/servers.ts'

/** The options of node-postgres for a database. Its own TLS is off, because `stream` opens protected connections. */
export function clientOptions(database_url: string) {
  const target = createTarget(database_url)
  const { servers, user, password, database } = target.address
  return {
    host: servers[0].host,
    port: servers[0].port,
    ...(user !== undefined && { user }),
    ...(password !== undefined && { password }),
    ...(database !== undefined && { database }),
    ssl: false,
    stream: () => new DatabaseStream(target),
  } satisfies ClientConfig
}

/** A stream that opens its connection when `connect` is called. Node-postgres needs the stream earlier. */
export class DatabaseStream extends Duplex {
  readonly #target: DatabaseTarget
  #socket: Socket | undefined

  constructor(target: DatabaseTarget) {
    super()
    this.#target = target
  }

  /** The host and port that node-postgres passes are not used. */
  connect(): void {
    this.#open().catch((error: unknown) => this.destroy(error as Error))
  }

  async #open(): Promise<void> {
    const socket = await this.#target.open()
    this.#socket = socket
    socket.on('data', (data) => this.push(data) || socket.pause())
    socket.on('end', () => this.push(null))
    socket.on('error', (error) => this.destroy(error))
    socket.on('close', () => this.destroy())
    if (this.destroyed) socket.destroy()
    else this.emit('connect')
  }

  override _read(): void {
    this.#socket?.resume()
  }

  override _write(data: Buffer, encoding: NodeJS.BufferEncoding, done: (error?: Error | null) => void): void {
    if (this.#socket !== undefined) this.#socket.write(data, encoding, done)
    // Node-postgres may end its session before it is connected.
    else this.once('connect', () => this.#socket!.write(data, encoding, done))
  }

  override _final(done: () => void): void {
    if (this.#socket === undefined) done()
    else this.#socket.end(done)
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#socket?.destroy()
    done(error)
  }

  /** `openSocket` has set it. */
  setNoDelay(): void {}

  setKeepAlive(on: boolean, delay_ms: number): void {
    this.#socket?.setKeepAlive(on, delay_ms)
  }

  ref(): void {
    this.#socket?.ref()
  }

  unref(): void {
    this.#socket?.unref()
  }
}
