// The SMTP server: accepts every email unless a fault or the recipient's domain triggers a refusal.
import { SMTPServer, type SMTPServerDataStream, type SMTPServerSession } from 'smtp-server'
import type { AddressInfo } from 'node:net'
import { nextFault, type Fault } from '../shared/faults.ts'
import { logRequest, type LoggedRequest } from '../shared/requests.ts'
import { storeMessage, PHASES, type Phase, type SmtpEmulator } from './emulator.ts'
import { applySmtpFault } from './fault.ts'
import { MAX_COMMAND_LENGTH, problemOfMailbox, problemOfRecipients, problemOfText } from './rules.ts'

const MAX_MESSAGE_BYTES = 64 * 1024 * 1024
/** Replies by the domain of a recipient. */
const REFUSED_AT_RCPT: Record<string, { responseCode: number; text: string }> = {
  'bounce.example': { responseCode: 550, text: 'No such mailbox' },
  'defer.example': { responseCode: 451, text: 'Try again later' },
}
const REFUSED_AT_DOT = 'reject.example'
const LOST = 'lost.example'

type Connection = SMTPServer['connections'] extends Set<infer Each> ? Each : never
/** `log`: the entry of the current command. `reply`: replaces the next regular reply. */
type Client = { connection: Connection; log: LoggedRequest | null; reply: string | null; is_cut: boolean }

/** Resolves when the server listens. `close` closes open connections. */
export async function startSmtpServer(
  emulator: SmtpEmulator,
  { host, port }: { host: string; port: number },
): Promise<{ port: number; close(): Promise<void> }> {
  const clients = new Map<string, Client>()
  const server = new SMTPServer({
    name: 'smtp-emulator',
    logger: false,
    size: MAX_MESSAGE_BYTES,
    rejectOversized: true,
    hideENHANCEDSTATUSCODES: false,
    disableReverseLookup: true,
    // The server accepts only local connections, so it offers no TLS.
    disabledCommands: ['STARTTLS'],
    allowInsecureAuth: true,
    authOptional: true,
    onConnect(session, callback) {
      const connection = [...server.connections].find(({ id }) => id === session.id)
      if (connection === undefined) return callback()
      const client: Client = { connection, log: null, reply: null, is_cut: false }
      clients.set(session.id, client)
      interceptCommands(emulator, client)
      withFault(emulator, client, 'GREETING', '', callback)
    },
    onClose: ({ id }) => void clients.delete(id),
    onAuth({ username, password }, _session, callback) {
      const is_valid =
        emulator.password === null || (username === emulator.user && password === emulator.password)
      callback(null, is_valid ? { user: username } : { message: 'Authentication credentials invalid' })
    },
    onMailFrom({ address }, { envelope }, callback) {
      // Bounces have an empty sender.
      callback(address === '' ? null : problemOfMailbox(address, envelope.smtpUtf8 === true))
    },
    onRcptTo({ address }, { envelope }, callback) {
      const problem =
        problemOfMailbox(address, envelope.smtpUtf8 === true) ?? problemOfRecipients(envelope.rcptTo.length)
      if (problem !== null) return callback(problem)
      const refused = REFUSED_AT_RCPT[domainOf(address)]
      if (refused === undefined) return callback()
      callback(Object.assign(new Error(refused.text), { responseCode: refused.responseCode }))
    },
    onData(stream, session, callback) {
      const client = clients.get(session.id)
      if (client === undefined) return callback(new Error('Local error in processing'))
      void receive(emulator, client, stream, session, callback)
    },
  })
  // Errors of closed connections are ignored.
  server.on('error', () => {})
  await new Promise<void>((resolve, reject) => {
    server.server.once('error', reject)
    server.listen(port, host, resolve)
  })
  const bound = (server.server.address() as AddressInfo).port
  return {
    port: bound,
    async close() {
      const closed = new Promise<void>((resolve) => server.close(resolve))
      for (const connection of server.connections) connection._socket.destroy()
      await closed
    },
  }
}

/** Logs each command and its reply, and applies faults before the server's own reply. */
function interceptCommands(emulator: SmtpEmulator, client: Client): void {
  const { connection } = client
  const perform = connection._onCommand.bind(connection)
  connection._onCommand = (command, callback) => {
    const line = command.toString()
    const phase = connection._nextHandler ? null : phaseOf(line)
    // AUTH may be longer (RFC 4954).
    if (!connection._nextHandler && phase !== 'AUTH' && command.length + '\r\n'.length > MAX_COMMAND_LENGTH) {
      connection.send(500, 'Line too long')
      return callback?.()
    }
    if (phase === null) {
      // The next reply answers a command that is not logged.
      if (!connection._nextHandler) client.log = null
      return perform(command, callback)
    }
    logCommand(emulator, client, phase, null)
    withFault(
      emulator,
      client,
      phase,
      line,
      () => perform(command, callback),
      () => callback?.(),
    )
  }
  const send = connection.send.bind(connection)
  connection.send = (code, data, context) => {
    const { reply, is_cut } = client
    if (is_cut) return
    if (reply !== null) {
      client.reply = null
      return sendReply(client, reply)
    }
    logReply(client, code, typeof data === 'string' ? data : '')
    send(code, data, context)
  }
}

function phaseOf(line: string): Phase | null {
  const verb = line.split(/[\s:]/, 1)[0]!.toUpperCase()
  return PHASES.find((phase) => phase === (verb === 'HELO' ? 'EHLO' : verb)) ?? null
}

/** Applies the fault that matches. Calls `instead` after the fault has replied, and `proceed` if none matches. */
function withFault(
  emulator: SmtpEmulator,
  client: Client,
  phase: Phase,
  text: string,
  proceed: () => void,
  instead: () => void = () => {},
): void {
  const fault = faultAt(emulator, client, phase, text)
  if (fault === null) proceed()
  else void runFault(emulator, client, phase, fault, proceed, instead)
}

async function runFault(
  { faults }: SmtpEmulator,
  client: Client,
  phase: Phase,
  fault: Fault,
  proceed: () => void,
  instead: () => void,
): Promise<void> {
  const outcome = await applySmtpFault(faults, fault, '250 2.0.0 OK')
  if (outcome.kind === 'continue') return proceed()
  if (outcome.kind === 'cut') return cut(client, outcome.partial)
  sendReply(client, outcome.line)
  if (phase === 'GREETING') client.connection.close()
  instead()
}

async function receive(
  emulator: SmtpEmulator,
  client: Client,
  stream: SMTPServerDataStream,
  session: SMTPServerSession,
  answer: (refused: Error | null) => void,
): Promise<void> {
  try {
    answer(await acceptMessage(emulator, client, stream, session))
  } catch {
    // The client closed the connection.
    answer(new Error('The text of the email did not arrive'))
  }
}

/** Receives the text and stores the email. Returns the refusal, or null. */
async function acceptMessage(
  emulator: SmtpEmulator,
  client: Client,
  stream: SMTPServerDataStream,
  { envelope }: SMTPServerSession,
): Promise<Error | null> {
  const body_fault = faultAt(emulator, client, 'BODY', '')
  const chunks: Buffer[] = []
  for await (const chunk of stream) {
    chunks.push(chunk as Buffer)
    if (body_fault !== null && chunks.length === 1) {
      const outcome = await applySmtpFault(emulator.faults, body_fault, '')
      if (outcome.kind === 'cut') cut(client, '')
      if (outcome.kind === 'reply') client.reply = outcome.line
    }
  }
  if (client.is_cut) return null
  const raw = Buffer.concat(chunks)
  const sender = envelope.mailFrom === false ? '' : envelope.mailFrom.address
  const to = envelope.rcptTo.map(({ address }) => address)
  const domains = to.map(domainOf)
  logCommand(emulator, client, 'DOT', raw)
  if (client.reply !== null) return null
  const problem = problemOfText(raw, envelope)
  if (problem !== null) return problem
  if (domains.includes(REFUSED_AT_DOT))
    return Object.assign(new Error('The message was refused because of its content'), { responseCode: 554 })
  const store = () => void storeMessage(emulator, sender, to, raw)
  const fault =
    emulator.faults.list.length === 0 ? null : faultAt(emulator, client, 'DOT', raw.toString('latin1'))
  if (fault?.when === 'after') store()
  const outcome =
    fault === null ? null : await applySmtpFault(emulator.faults, fault, '250 2.6.0 OK: message queued')
  if (outcome?.kind === 'reply') client.reply = outcome.line
  else if (outcome?.kind === 'cut') cut(client, outcome.partial)
  else if (fault?.when !== 'after') store()
  if (domains.includes(LOST)) cut(client, '')
  return null
}

function faultAt({ faults }: SmtpEmulator, { log }: Client, phase: Phase, text: string): Fault | null {
  const fault = nextFault(faults, phase, '/', text)
  if (fault !== null && log !== null) log.fault = fault.id
  return fault
}

function logCommand({ requests }: SmtpEmulator, client: Client, phase: Phase, raw: Buffer | null): void {
  const { connection } = client
  const message_id = raw === null ? null : (/^message-id:\s*(<[^>]*>)/im.exec(headOf(raw))?.[1] ?? null)
  client.log = logRequest(requests, {
    method: phase,
    path: '/',
    idempotency_key: message_id,
    request_id: `${connection.id}/${connection.session.transaction}`,
  })
}

function headOf(raw: Buffer): string {
  const end = raw.indexOf('\r\n\r\n')
  return raw.toString('latin1', 0, end < 0 ? raw.length : end)
}

function logReply({ log }: Client, code: number, text: string): void {
  if (log === null) return
  log.status = code
  if (code >= 400) log.refusal = text
}

/** Sends a complete reply line. */
function sendReply(client: Client, line: string): void {
  const code = Number.parseInt(line, 10)
  logReply(client, Number.isNaN(code) ? 0 : code, line)
  client.connection._socket.write(`${line}\r\n`)
  if (code === 421) client.connection.close()
}

function cut(client: Client, partial: string): void {
  const { _socket: socket } = client.connection
  client.is_cut = true
  if (partial === '') socket.destroy()
  else socket.write(partial, () => socket.destroy())
}

function domainOf(address: string): string {
  return address.slice(address.lastIndexOf('@') + 1).toLowerCase()
}
