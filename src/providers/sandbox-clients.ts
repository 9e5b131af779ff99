// What a sandbox puts in the place of the providers' servers.
import type { EmailProvider } from './email.ts'
import type { HttpClient } from './http.ts'
import type { SmsProvider } from './sms.ts'

/**
 * The clients of the sandbox of one tenant. `processor`, `ai`: the transports of the same code that calls a server.
 */
export type SandboxClients = {
  processor: HttpClient
  ai: HttpClient
  email: EmailProvider
  sms: SmsProvider
}
