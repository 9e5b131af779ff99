// The dialog that pauses or resumes a queue, a tenant, or a tenant in a queue.
import { Select } from '@mantine/core'
import { useDebouncedValue } from '@mantine/hooks'
import { useState } from 'react'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { ReasonField } from '../kit/ReasonField.tsx'
import { invalidate, useAnswer } from '../queries.ts'
import { sendAct, AuditLink } from '../kit/ActResult.tsx'
import type { TenantRow } from './shapes.ts'

/** What is paused or resumed. `queue` null: all queues of the tenant. */
export type PauseTarget = {
  act: 'Pause' | 'Resume'
  queue: string | null
  tenant?: { id: string; slug: string }
  /** The number of due jobs, if it is known. */
  due?: number
}

/** The dialog is closed while `target` is undefined. */
export function PauseDialog({ target, close }: { target: PauseTarget | undefined; close: () => void }) {
  const [displayed, setDisplayed] = useState(target)
  // The dialog keeps its target during the closing animation.
  if (target !== undefined && target !== displayed) setDisplayed(target)
  return displayed === undefined ? null : (
    <Dialog
      key={`${displayed.act} ${displayed.queue} ${displayed.tenant?.id}`}
      target={displayed}
      opened={target !== undefined}
      close={close}
    />
  )
}

function Dialog({ target, opened, close }: { target: PauseTarget; opened: boolean; close: () => void }) {
  const { act, queue, tenant, due } = target
  const [reason, setReason] = useState('')
  const where = queue === null ? 'all queues' : `queue ${queue}`
  const what = tenant === undefined ? where : `${where} of tenant ${tenant.slug}`
  const body = { ...(queue !== null && { queue }), ...(tenant && { tenant_id: tenant.id }) }
  const count = due === undefined || due === 0 ? '' : ` Due now: ${due.toLocaleString()}.`
  const pauses = act === 'Pause'
  return (
    <ConfirmDialog
      opened={opened}
      onClose={() => {
        close()
        setReason('')
      }}
      title={`${act} ${what}?`}
      action={act}
      {...(pauses && { tone: 'bad' as const })}
      effect={
        pauses
          ? `Within 1 s, no new call to a provider starts. Due jobs wait.${count}`
          : `Due jobs start again at once.${count}`
      }
      ready={!pauses || reason.trim() !== ''}
      act={() =>
        pauses
          ? sendAct('POST', '/ops/pauses', { ...body, reason: reason.trim() })
          : sendAct('POST', '/ops/pauses/resume', body)
      }
      outcome={({ audit_seq }) => (
        <>
          {pauses ? 'Paused' : 'Resumed'}: {what}. <AuditLink of="installation" seq={audit_seq} />
        </>
      )}
      onDone={() => invalidate('/ops/pauses', '/ops/queues')}
    >
      {pauses && (
        <ReasonField description="All operators can read it." value={reason} onChange={setReason} required />
      )}
    </ConfirmDialog>
  )
}

/** A field that searches and selects a tenant. */
export function TenantField({
  chosen,
  choose,
}: {
  chosen: TenantRow | undefined
  choose: (tenant: TenantRow | undefined) => void
}) {
  const [text, setText] = useState('')
  const [search] = useDebouncedValue(text.trim() === chosen?.slug ? '' : text.trim(), 150)
  const { data = [] } = useAnswer<TenantRow[]>('/ops/tenants', { search })
  const choices = chosen === undefined || data.some(({ id }) => id === chosen.id) ? data : [chosen, ...data]
  return (
    <Select
      label="Tenant"
      placeholder="Name or slug"
      searchable
      clearable
      nothingFoundMessage="No tenant found"
      filter={({ options }) => options}
      data={choices.map(({ id, slug }) => ({ value: id, label: slug }))}
      value={chosen?.id ?? null}
      searchValue={text}
      onSearchChange={setText}
      onChange={(id) => choose(choices.find((tenant) => tenant.id === id))}
    />
  )
}
