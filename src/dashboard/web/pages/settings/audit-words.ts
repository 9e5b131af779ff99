// Actions of the audit log for people.
import { inWords } from '../../kit/statuses.ts'

/** `capturePayment` is `Capture payment`, `keys.revoke` is `Keys: revoke`. */
export function actionInWords(action: string): string {
  const [noun, verb] = action.split('.')
  if (noun !== undefined && verb !== undefined) return `${inWords(noun)}: ${inWords(verb).toLowerCase()}`
  return inWords(
    action.replaceAll(/([a-z])([A-Z])/g, (_, end: string, begin: string) => `${end} ${begin.toLowerCase()}`),
  )
}
