// Floor: nodemailer's pool and Twilio's SDK alone. `GET /email?seconds=5` and `GET /sms?seconds=5` send for that long
// and return the number of messages.
import { CHANNELS, type Channel } from '#core/addresses.ts'
import { createTransport } from 'nodemailer'
import twilio from 'twilio'
import RequestClient from 'twilio/lib/base/RequestClient.js'
import { EMAIL_TEXTS, newAddress, SMS_TEXT } from '../measures/messages/texts.ts'
import { requireEnv, serve } from './serve.ts'

/** The maximum number of concurrent jobs of the product's worker. */
const IN_FLIGHT = Number(requireEnv('WORKER_CONCURRENCY'))
const TWILIO = 'https://api.twilio.com'

/**
 * Sends the SDK's requests to the emulator, because the SDK has no option for another host. Node's agent keeps
 * connections alive and opens as many as needed.
 */
class EmulatorClient extends RequestClient {
  override request<T>(options: RequestClient.RequestOptions<T>) {
    return super.request<T>({ ...options, uri: options.uri.replace(TWILIO, requireEnv('TWILIO_API_BASE')) })
  }
}

const transport = createTransport({
  url: requireEnv('SMTP_URL'),
  pool: true,
  // For a server on this machine the product does not use TLS either.
  ignoreTLS: true,
  maxConnections: Number(requireEnv('SMTP_CONNECTIONS')),
  maxMessages: Infinity,
})
const client = twilio(requireEnv('TWILIO_ACCOUNT_SID'), requireEnv('TWILIO_AUTH_TOKEN'), {
  httpClient: new EmulatorClient(),
})

const SEND: Record<Channel, () => Promise<unknown>> = {
  email: () =>
    transport.sendMail({ from: requireEnv('EMAIL_FROM'), to: newAddress('email'), ...EMAIL_TEXTS }),
  sms: () =>
    client.messages.create({ from: requireEnv('TWILIO_FROM'), to: newAddress('sms'), body: SMS_TEXT }),
}

await serve((app) => {
  for (const channel of CHANNELS) {
    app.get<{ Querystring: { seconds: string } }>(`/${channel}`, async ({ query }) => {
      return { sent: await sendFor(Number(query.seconds), SEND[channel]) }
    })
  }
})

async function sendFor(seconds: number, send: () => Promise<unknown>): Promise<number> {
  const until = performance.now() + seconds * 1000
  let sent = 0
  const sendLoop = async () => {
    while (performance.now() < until) {
      await send()
      sent += 1
    }
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, sendLoop))
  return sent
}
