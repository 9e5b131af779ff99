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

type Metadata = { message_id?: string }

/** Oldest first, of each provider. */
export async function departuresOf({ provider }: Pick<System, 'provider'>): Promise<Departure[]> {
  const sms: { sid: string; metadata: Metadata }[] = await provider('twilio').effects()
  const email: { message_id: string | null; recipients: number; metadata: Metadata }[] =
    await provider('smtp').effects()
  return [
    ...sms.map(({ sid, metadata }) => ({ id: metadata.message_id ?? null, reference: sid, recipients: 1 })),
    ...email.map(({ message_id, recipients, metadata }) => ({
      id: metadata.message_id ?? null,
      reference: message_id ?? '',
      recipients,
    })),
  ]
}
