// Reads sent messages from the providers' own records.
import type { System } from '../system.ts'

/** An SMS or email that its provider has accepted. */
export type Departure = {
  /** The id of our message; null if the provider's record has none. */
  id: string | null
  reference: string
  /** When the provider accepted it: ISO 8601. */
  at: string
  /** A key for each recipient, the same in all departures of a message. */
  recipients: string[]
}

type Metadata = { message_id?: string }

/** Reads the accepted messages of all providers, for each provider the oldest first. */
export async function departuresOf({ provider }: Pick<System, 'provider'>): Promise<Departure[]> {
  const sms: { sid: string; at: string; metadata: Metadata }[] = await provider('twilio').effects()
  const email: {
    message_id: string | null
    at: string
    recipients: string[] | number
    metadata: Metadata
  }[] = await provider('smtp').effects()
  return [
    // An SMS has one recipient.
    ...sms.map(({ sid, at, metadata }) => ({
      id: metadata.message_id ?? null,
      reference: sid,
      at,
      recipients: ['phone'],
    })),
    ...email.map(({ message_id, at, recipients, metadata }) => ({
      id: metadata.message_id ?? null,
      reference: message_id ?? '',
      at,
      recipients: namesOf(recipients),
    })),
  ]
}

/** The emulator of an earlier release, which an upgrade begins with, records only the number of recipients. */
function namesOf(recipients: string[] | number): string[] {
  return typeof recipients === 'number'
    ? Array.from({ length: recipients }, (_, nth) => `${nth}`)
    : recipients
}
