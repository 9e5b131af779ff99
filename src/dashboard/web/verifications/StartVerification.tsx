// The dialog that starts a verification and shows the link for the person.
import { NativeSelect, TextInput } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { KycSubjectType, Verification } from '#sdk/index.ts'
import { sluice, errorMessage } from '../api.ts'
import { ActResultText, creationResult, type CreationResult } from '../kit/ActResult.tsx'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { invalidate } from '../queries.ts'
import { PersonLink } from './PersonLink.tsx'

const TYPES = [
  { value: 'customer', label: 'Customer' },
  { value: 'recipient', label: 'Recipient' },
  { value: 'merchant', label: 'Merchant' },
]

/** Without `subject`, the dialog has fields for it. */
export function StartVerification({
  opened,
  onClose,
  subject,
  name,
}: {
  opened: boolean
  onClose: () => void
  subject?: { type: KycSubjectType; id: string }
  name?: string
}) {
  const [type, setType] = useState<KycSubjectType>('customer')
  const [id, setId] = useState('')
  const [return_url, setReturnUrl] = useState('')
  const of = subject ?? { type, id: id.trim() }

  function close(): void {
    onClose()
    setId('')
    setReturnUrl('')
  }

  async function start(idempotency_key: string): Promise<CreationResult<Verification>> {
    const body = { subject_type: of.type, subject_id: of.id, return_url: return_url.trim() || null }
    return await creationResult(sluice.compliance.kyc.create(body, { idempotency_key }), (error) =>
      error.code === 'kyc_refused' ? error.context['kyc_id'] : undefined,
    )
  }

  return (
    <ConfirmDialog
      opened={opened}
      onClose={close}
      title={name === undefined ? 'Start a verification' : `Verify ${name}?`}
      action="Start verification"
      effect="Opens a session at the identity provider and gives you a link for the person. The link is shown once and works for one visit within 48 hours."
      ready={of.id !== ''}
      act={start}
      shown_once
      onDone={() => invalidate('/v1/compliance', '/v1/customers', '/v1/recipients', '/v1/merchants')}
      outcome={(result) => <Outcome result={result} />}
    >
      {(errorOf) => (
        <>
          {subject === undefined && (
            <SubjectFields
              {...{ type, setType, id, setId }}
              errors={{ type: errorOf('subject_type'), id: errorOf('subject_id') }}
            />
          )}
          <TextInput
            label="Return URL"
            description="Where the person is sent afterwards. Optional."
            type="url"
            placeholder="https://"
            value={return_url}
            error={errorOf('return_url')}
            onChange={(event) => setReturnUrl(event.currentTarget.value)}
          />
        </>
      )}
    </ConfirmDialog>
  )
}

function SubjectFields({
  type,
  setType,
  id,
  setId,
  errors,
}: {
  type: KycSubjectType
  setType: (type: KycSubjectType) => void
  id: string
  setId: (id: string) => void
  errors: { type: string | undefined; id: string | undefined }
}) {
  return (
    <>
      <NativeSelect
        label="Subject type"
        data={TYPES}
        value={type}
        error={errors.type}
        onChange={(event) => {
          const chosen = event.currentTarget.value
          if (chosen === 'customer' || chosen === 'recipient' || chosen === 'merchant') setType(chosen)
        }}
      />
      <TextInput
        label="Subject id"
        description={`The id of the ${type}, as its page shows it.`}
        classNames={{ input: 'mono' }}
        value={id}
        error={errors.id}
        onChange={(event) => setId(event.currentTarget.value)}
        data-autofocus
      />
    </>
  )
}

function Outcome({ result }: { result: CreationResult<Verification> }) {
  if ('refused' in result)
    return (
      <div className="stack">
        <div>{errorMessage(result.refused)}</div>
        <Link to={`/compliance/${result.id}`}>Go to the verification</Link>
      </div>
    )
  const { accepted } = result
  return (
    <ActResultText of={accepted}>
      <PersonLink url={accepted.data.url} done={accepted.finished} />
      <p>
        <Link to={`/compliance/${accepted.data.id}`}>Go to the verification</Link>
      </p>
    </ActResultText>
  )
}
