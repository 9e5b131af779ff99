// What left, by the own records of those who send it.
import type { System } from '../system.ts'

/** One SMS or email as its provider took it. */
export type Departure = {
  /** Of our message; null: it does not say. */
  id: string | null
  reference: string
  /** The status of the answer to the request; 0: it was lost. */
  answered: number
}

export async function departuresOf({ provider }: Pick<System, 'provider'>): Promise<Departure[]> {
  const [sms, email] = await Promise.all([provider('twilio').effects(), provider('smtp').effects()])
  return [...sms, ...email]
}
