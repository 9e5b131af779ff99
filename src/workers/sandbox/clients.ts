// The clients of the sandbox of one tenant: what its providers call instead of servers.
import type { AddressHash } from '#core/addresses.ts'
import { EMAIL, SMS } from '#core/config/providers.ts'
import type { Vault } from '#core/secrets.ts'
import { storeInInbox } from '#domain/sandboxes/inbox.ts'
import { MAX_AI_RESPONSE_BYTES } from '#providers/ai/client.ts'
import type { EmailProvider, OutgoingEmail } from '#providers/email.ts'
import {
  MAX_RESPONSE_BYTES,
  NoAnswer,
  stringEntries,
  type FinishedCall,
  type HttpClient,
} from '#providers/http.ts'
import { createModel } from '#providers/sandbox/ai/answers.ts'
import { performRequest, type EngineRequest } from '#providers/sandbox/stripe/requests.ts'
import type { SandboxClients } from '#providers/sandbox-clients.ts'
import { readAnswer } from './answer.ts'
import { withinLimits } from './call.ts'
import type { SandboxHost } from './host.ts'
import { measuring, type Measure } from './measure.ts'
import { sandboxSms } from './sms.ts'

type SandboxOptions = {
  host: SandboxHost
  tenant_id: string
  vault: Vault
  hashOf: AddressHash
  onCall: (provider: string, call: FinishedCall) => void
}

export function sandboxClients(options: SandboxOptions): SandboxClients {
  const { onCall } = options
  return {
    processor: processorTransport(options),
    ai: aiTransport(),
    email: emailOf(
      options,
      measuring((call) => onCall(EMAIL.provider, call)),
    ),
    sms: sandboxSms(
      options,
      measuring((call) => onCall(SMS.provider, call)),
    ),
  }
}

/** The transport of the payment processor's clients. */
function processorTransport({ host, tenant_id }: SandboxOptions): HttpClient {
  return {
    async send({ path, method, headers, body: sent }, deadline_ms, signal) {
      const [pathname, query = ''] = path.split('?', 2)
      const request: EngineRequest = {
        method,
        path: pathname!,
        query,
        body: typeof sent === 'string' ? sent : '',
        headers: lowerCase(stringEntries(headers ?? {})),
      }
      const answer = await host.perform(tenant_id, (engine) => performRequest(engine, request), {
        deadline_ms,
        signal,
      })
      return readAnswer(answer, MAX_RESPONSE_BYTES)
    },
    close: () => Promise.resolve(),
  }
}

function aiTransport(): HttpClient {
  const answer = createModel()
  return {
    async send({ path, headers, body }, deadline_ms, signal) {
      const key = stringEntries(headers ?? {})['idempotency-key'] ?? ''
      const request = { path, key, body: typeof body === 'string' ? body : '{}' }
      const answered = await withinLimits({ deadline_ms, signal }, async (call) => {
        await call.begin()
        return await answer(request, call.signal)
      })
      return readAnswer(answered, MAX_AI_RESPONSE_BYTES)
    },
    close: () => Promise.resolve(),
  }
}

/** Email ends in the inbox: no server refuses it. */
function emailOf({ host, tenant_id, vault }: SandboxOptions, measured: Measure): EmailProvider {
  return {
    withConnection: async (_tenant_id, _signal, work) => await work(),
    sendEmail: async (email) =>
      await measured('send_email', async (): ReturnType<EmailProvider['sendEmail']> => {
        try {
          await host.transact(tenant_id, (tx) =>
            storeInInbox(tx, vault, tenant_id, { ...EMAIL_SENT, ...inboxContentOf(email) }),
          )
          return { kind: 'done', value: { refused: [] } }
        } catch (error) {
          if (!(error instanceof NoAnswer)) throw error
          const { message } = error
          if (error.sent) return { kind: 'ambiguous', reason: message }
          return { kind: 'retry', failure: { code: 'connection_failed', message, provider_code: null } }
        }
      }),
    close: () => Promise.resolve(),
  }
}

const EMAIL_SENT = {
  channel: 'email',
  direction: 'sent',
  status: 'sent',
  keyword: null,
  person: null,
  sender: null,
} as const

function inboxContentOf({ message_id, from, recipients, subject, text, html, attachments }: OutgoingEmail) {
  return {
    reference: message_id,
    from,
    to: recipients,
    subject,
    text,
    html,
    attachments: attachments.map(({ filename, content_type, content }) => ({
      filename,
      content_type,
      bytes: content.length,
    })),
  }
}

function lowerCase(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
}
