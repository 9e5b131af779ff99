// What left, by the own records of those who send it.
import type { System } from '../system.ts'

/** One SMS or email as its provider took it. */
export type Departure = {
  /** Of our message; null: it does not say. */
  id: string | null
  reference: string
  /** Of those that it went to. */
  recipients: number
}

/** Oldest first, of each provider. */
export async function departuresOf({ provider }: Pick<System, 'provider'>): Promise<Departure[]> {
  const sms: { sid: string; metadata: Record<string, string> }[] = await provider('twilio').effects()
  const email: { message_id: string | null; recipients: number }[] = await provider('smtp').effects()
  return [
    ...sms.map(({ sid, metadata }) => ({
      id: metadata['sluice_message_id'] ?? null,
      reference: sid,
      recipients: 1,
    })),
    ...email.map(({ message_id, recipients }) => ({
      id: /^<([0-9a-f-]{36})@/.exec(message_id ?? '')?.[1] ?? null,
      reference: message_id ?? '',
      recipients,
    })),
  ]
}
