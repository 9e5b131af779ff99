// Messages for the error codes of better-auth 1.7 and its plugins, on the paths that the dashboard serves.
import { PASSWORD_LENGTH } from '#domain/people/password.ts'

const { min, max } = PASSWORD_LENGTH

/** `restart_required`: the user must start the sign-in again; no further code is accepted. */
type SignInRefusal = { message: string; restart_required?: true }

const SIGN_IN_AGAIN = 'Your session has ended. Sign in again.'
const WRONG_PASSWORD = 'The password is wrong.'
const TWO_FACTOR_OFF = 'Two-factor authentication is off.'
const SESSION_TOO_OLD = 'You signed in more than a day ago. Sign out and in again, then repeat this.'

const REFUSALS: Record<string, SignInRefusal> = {
  // Passwords.
  INVALID_EMAIL: { message: 'This is not an email address.' },
  INVALID_EMAIL_OR_PASSWORD: { message: 'The email address or the password is wrong.' },
  INVALID_PASSWORD: { message: WRONG_PASSWORD },
  CREDENTIAL_ACCOUNT_NOT_FOUND: { message: WRONG_PASSWORD },
  PASSWORD_TOO_SHORT: { message: `The new password must have at least ${min} characters.` },
  PASSWORD_TOO_LONG: { message: `The new password must have at most ${max} characters.` },
  // Sessions.
  UNAUTHORIZED: { message: SIGN_IN_AGAIN },
  FAILED_TO_GET_SESSION: { message: SIGN_IN_AGAIN },
  FAILED_TO_GET_USER_INFO: { message: SIGN_IN_AGAIN },
  SESSION_REQUIRED: { message: SIGN_IN_AGAIN },
  SESSION_EXPIRED: { message: SESSION_TOO_OLD },
  SESSION_NOT_FRESH: { message: SESSION_TOO_OLD },
  // One-time codes and backup codes.
  INVALID_CODE: { message: 'The code is wrong. Enter the one that your app shows now.' },
  INVALID_BACKUP_CODE: { message: 'This backup code is wrong, or was used before.' },
  TOO_MANY_ATTEMPTS_REQUEST_NEW_CODE: {
    message: 'Too many wrong codes. Sign in again.',
    restart_required: true,
  },
  ACCOUNT_TEMPORARILY_LOCKED: { message: 'Too many wrong codes. Try again in 15 minutes.' },
  INVALID_TWO_FACTOR_COOKIE: { message: 'This sign-in has expired. Sign in again.', restart_required: true },
  TOTP_ALREADY_ENABLED: { message: 'Two-factor authentication is already on.' },
  TOTP_NOT_ENABLED: { message: TWO_FACTOR_OFF },
  TWO_FACTOR_NOT_ENABLED: { message: TWO_FACTOR_OFF },
  BACKUP_CODES_NOT_ENABLED: { message: TWO_FACTOR_OFF },
  // Passkeys.
  CHALLENGE_NOT_FOUND: { message: 'The request for the passkey has expired. Start again.' },
  AUTHENTICATION_FAILED: { message: 'The passkey did not work. Try again, or sign in with your password.' },
  PASSKEY_NOT_FOUND: { message: 'This passkey is not registered. It may have been removed.' },
  PASSKEY_UNVERIFIED: { message: 'The passkey must ask for a PIN, a fingerprint or a face.' },
  FAILED_TO_VERIFY_REGISTRATION: { message: 'The passkey could not be added. Try again.' },
  YOU_ARE_NOT_ALLOWED_TO_REGISTER_THIS_PASSKEY: { message: 'This passkey belongs to another user.' },
}
/** The message for all other codes. The pages cause none of these codes. */
const UNKNOWN_REFUSAL: SignInRefusal = { message: 'The request was refused. Reload the page and try again.' }

/** The message for an error body of better-auth. */
export function describeRefusal(body: string): SignInRefusal {
  try {
    const { code } = Object(JSON.parse(body)) as { code?: unknown }
    return (typeof code === 'string' ? REFUSALS[code] : undefined) ?? UNKNOWN_REFUSAL
  } catch {
    return UNKNOWN_REFUSAL
  }
}
