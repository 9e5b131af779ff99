// Sign-in: by email and password, and a code if two-factor authentication is on; or by passkey.
import { Button, PasswordInput, TextInput } from '@mantine/core'
import { useMutation } from '@tanstack/react-query'
import { useRouter } from '@tanstack/react-router'
import { KeyRound } from 'lucide-react'
import { useState, type SyntheticEvent } from 'react'
import { SluiceError } from '#sdk/index.ts'
import { post, read } from '../api.ts'
import { useAddressSearch } from '../address.ts'
import { DialogError } from '../kit/ConfirmDialog.tsx'
import { formatDuration } from '../kit/Instant.tsx'
import { addressOf } from '../mode.ts'
import { queryClient } from '../queries.ts'
import { StandaloneCard } from '../shell/StandaloneCard.tsx'

type SignedIn = { twoFactorRedirect?: boolean }

export function SignInPage() {
  const [search] = useAddressSearch()
  const { history } = useRouter()
  const [step, setStep] = useState<'password' | 'code'>('password')
  const [email, setEmail] = useState('')
  const [restart_error, setOver] = useState<Error>()

  function enter(): void {
    queryClient.clear()
    const to = search['to'] ?? '/'
    // Redirects only to paths of this dashboard.
    history.push(addressOf(/^\/(?![/\\])/.test(to) ? to : '/'))
  }

  return (
    <StandaloneCard title={step === 'password' ? 'Sign in to Sluice' : 'Enter your code'}>
      {step === 'password' ? (
        <PasswordStep
          email={email}
          setEmail={setEmail}
          restart_error={restart_error}
          onDone={(code_required) => (code_required ? setStep('code') : enter())}
        />
      ) : (
        <CodeStep
          onDone={enter}
          onBack={(error) => {
            setOver(error)
            setStep('password')
          }}
        />
      )}
    </StandaloneCard>
  )
}

/** The step for email and password. `restart_error`: why the sign-in must start again. */
function PasswordStep({
  email,
  setEmail,
  restart_error,
  onDone,
}: {
  email: string
  setEmail: (email: string) => void
  restart_error: Error | undefined
  onDone: (code_required: boolean) => void
}) {
  const [password, setPassword] = useState('')
  const signIn = useMutation({
    mutationFn: () => post<SignedIn>('/auth/sign-in/email', { email, password }),
    onSuccess: ({ twoFactorRedirect = false }) => onDone(twoFactorRedirect),
  })
  const passkey = useMutation({ mutationFn: signInWithPasskey, onSuccess: () => onDone(false) })
  const busy = signIn.isPending || passkey.isPending
  const error = signIn.error ?? passkey.error ?? (signIn.isIdle && passkey.isIdle ? restart_error : undefined)
  return (
    <form className="stack" onSubmit={submitHandler(() => signIn.mutate())}>
      <TextInput
        size="sm"
        type="email"
        label="Email"
        autoComplete="username webauthn"
        required
        withAsterisk={false}
        value={email}
        onChange={(event) => setEmail(event.currentTarget.value)}
      />
      <PasswordInput
        size="sm"
        label="Password"
        autoComplete="current-password"
        required
        withAsterisk={false}
        value={password}
        onChange={(event) => setPassword(event.currentTarget.value)}
        visibilityToggleButtonProps={{ 'aria-label': 'Show password' }}
        // oxlint-disable-next-line jsx-a11y/no-autofocus -- the email is filled in already, and the code field is no longer there
        autoFocus={restart_error !== undefined}
      />
      {error && <DialogError error={readableError(error)} />}
      <Button type="submit" size="sm" variant="filled" fullWidth disabled={busy} mt={4}>
        Sign in
      </Button>
      {HAS_PASSKEYS && (
        <Button
          size="sm"
          fullWidth
          disabled={busy}
          leftSection={<KeyRound size={14} />}
          onClick={() => passkey.mutate()}
        >
          Sign in with a passkey
        </Button>
      )}
      <p className="dim">Forgot your password? Ask an operator of this installation for a new one.</p>
    </form>
  )
}

/** Calls `onBack` with the error if the sign-in must start again. */
function CodeStep({ onDone, onBack }: { onDone: () => void; onBack: (error?: Error) => void }) {
  const [code, setCode] = useState('')
  const [backup, setBackup] = useState(false)
  const verify = useMutation({
    mutationFn: () =>
      post(`/auth/two-factor/${backup ? 'verify-backup-code' : 'verify-totp'}`, { code: code.trim() }),
    onSuccess: onDone,
    onError: (error) => {
      if (isRestartRequired(error)) onBack(error)
    },
  })
  return (
    <form className="stack" onSubmit={submitHandler(() => verify.mutate())}>
      <TextInput
        size="sm"
        label="Code"
        description={backup ? 'One of your backup codes; each works once.' : 'The six digits from your app.'}
        autoComplete="one-time-code"
        inputMode={backup ? 'text' : 'numeric'}
        required
        withAsterisk={false}
        value={code}
        onChange={(event) => setCode(event.currentTarget.value)}
        // oxlint-disable-next-line jsx-a11y/no-autofocus -- the step has only this field, and the user has requested it
        autoFocus
      />
      {verify.error !== null && <DialogError error={readableError(verify.error)} />}
      <Button type="submit" size="sm" variant="filled" fullWidth disabled={verify.isPending} mt={4}>
        Sign in
      </Button>
      <Button variant="subtle" onClick={() => setBackup(!backup)}>
        {backup ? 'Use a code from your app' : 'Use a backup code'}
      </Button>
      <Button variant="subtle" color="gray" onClick={() => onBack()}>
        Back
      </Button>
    </form>
  )
}

const HAS_PASSKEYS =
  'PublicKeyCredential' in globalThis && 'parseRequestOptionsFromJSON' in PublicKeyCredential

async function signInWithPasskey(): Promise<void> {
  const options = await read<PublicKeyCredentialRequestOptionsJSON>(
    '/auth/passkey/generate-authenticate-options',
  )
  const credential = await navigator.credentials.get({
    publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options),
  })
  if (!(credential instanceof PublicKeyCredential)) throw new Error('No passkey was chosen.')
  await post('/auth/passkey/verify-authentication', { response: credential.toJSON() })
}

function isRestartRequired(error: Error): boolean {
  const context: Record<string, unknown> = error instanceof SluiceError ? { ...error.context } : {}
  return context['restart_required'] === true
}

/** Replaces errors of the browser and of rate limits by messages for users. */
function readableError(error: Error): Error {
  if (error instanceof DOMException) return new Error('No passkey was used.')
  if (!(error instanceof SluiceError)) return error
  if (error.status === 429) {
    const wait = error.retry_after_s === null ? 'later' : `in ${formatDuration(error.retry_after_s * 1000)}`
    return new Error(`Too many attempts. Try again ${wait}.`)
  }
  return error
}

const submitHandler = (run: () => void) => (event: SyntheticEvent) => {
  event.preventDefault()
  run()
}
