// The user's second factor: one-time codes of an app, and backup codes.
import { Button, TextInput } from '@mantine/core'
import { useState } from 'react'
import { useDialogs } from '../../dialogs.ts'
import { ActResultText, sendAct, notifyActDone } from '../../kit/ActResult.tsx'
import { CodeBlock } from '../../kit/CodeBlock.tsx'
import { ConfirmDialog } from '../../kit/ConfirmDialog.tsx'
import { CopyField } from '../../kit/CopyField.tsx'
import { Status } from '../../kit/Status.tsx'
import { queryClient } from '../../queries.ts'
import { useSession } from '../../session.tsx'
import { QrCode } from './QrCode.tsx'
import { WithPassword } from './WithPassword.tsx'

type Enabling = { totpURI: string; backupCodes: string[] }

export function TwoFactor() {
  const { user } = useSession()
  const { opening, begin, props } = useDialogs<'enable' | 'confirm' | 'codes' | 'disable'>()
  const [enabling, setEnabling] = useState<Enabling>()
  const enabled = user.two_factor_enabled
  return (
    <section>
      <h2>Two-factor authentication</h2>
      <p className="dim">
        <Status status={enabled ? 'active' : 'disabled'} label={enabled ? 'On' : 'Off'} />{' '}
        {enabled
          ? 'You sign in with your password and a code from your app.'
          : 'If it is on, signing in also requires a code from your app.'}
      </p>
      <div className="inline">
        {enabled ? (
          <>
            <Button onClick={() => begin('codes')}>Create new backup codes</Button>
            <Button onClick={() => begin('disable')}>Disable two-factor</Button>
          </>
        ) : (
          <Button onClick={() => begin('enable')}>Enable two-factor</Button>
        )}
      </div>
      <div key={opening}>
        <WithPassword
          {...props('enable')}
          title="Enable two-factor"
          action="Continue"
          effect="Enter your password now, then a code from an app on your phone. Your other sessions end."
          act={(password) => sendAct<Enabling>('POST', '/auth/two-factor/enable', { password })}
          onDone={({ data }) => {
            setEnabling(data)
            begin('confirm')
          }}
        />
        {enabling && <ConfirmCode {...props('confirm')} enabling={enabling} />}
        <WithPassword
          {...props('codes')}
          title="Create new backup codes?"
          action="Create new backup codes"
          effect="Your old backup codes stop working."
          act={(password) =>
            sendAct<{ backupCodes: string[] }>('POST', '/auth/two-factor/generate-backup-codes', {
              password,
            })
          }
          outcome={(result) => (
            <ActResultText of={result}>
              <BackupCodes codes={result.data.backupCodes} />
            </ActResultText>
          )}
        />
        <WithPassword
          {...props('disable')}
          tone="bad"
          title="Disable two-factor?"
          action="Disable two-factor"
          effect="Your password alone is then enough to sign in. Your backup codes stop working, and your other sessions end."
          act={(password) => sendAct('POST', '/auth/two-factor/disable', { password })}
          onDone={(result) => {
            notifyActDone('Two-factor is off.', result)
            return queryClient.invalidateQueries()
          }}
        />
      </div>
    </section>
  )
}

function ConfirmCode({
  opened,
  onClose,
  enabling: { totpURI, backupCodes },
}: {
  opened: boolean
  onClose: () => void
  enabling: Enabling
}) {
  const [code, setCode] = useState('')
  const secret = URL.parse(totpURI)?.searchParams.get('secret') ?? ''
  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title="Confirm with a code"
      action="Confirm code"
      effect="Scan the QR code with your app, or enter the secret there. Then enter the six digits that it shows."
      ready={/^\d{6}$/.test(code.trim())}
      act={() => sendAct('POST', '/auth/two-factor/verify-totp', { code: code.trim() })}
      onDone={() => queryClient.invalidateQueries()}
      shown_once
      outcome={(result) => (
        <ActResultText of={result}>
          <BackupCodes codes={backupCodes} />
        </ActResultText>
      )}
    >
      <QrCode text={totpURI} label="QR code for your app" />
      <CopyField label="Secret" value={secret} />
      <TextInput
        label="Code"
        inputMode="numeric"
        autoComplete="one-time-code"
        data-autofocus
        value={code}
        onChange={(event) => setCode(event.currentTarget.value)}
      />
    </ConfirmDialog>
  )
}

function BackupCodes({ codes }: { codes: string[] }) {
  return (
    <>
      <p>
        Keep these backup codes: each signs you in once if you do not have your phone. They are not shown
        again.
      </p>
      <CodeBlock text={codes.join('\n')} label="backup codes" />
    </>
  )
}
