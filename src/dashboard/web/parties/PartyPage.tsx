// The page of a customer, a merchant or a recipient.
import { Button } from '@mantine/core'
import { Archive, Pencil, Trash2 } from 'lucide-react'
import type { ReactNode } from 'react'
import type { Answer, Customer, KycSubjectType, Merchant, Recipient, RequestOptions } from '#sdk/index.ts'
import { usePathParam } from '../address.ts'
import { useDialogs } from '../dialogs.ts'
import { actResponse, ActResultText } from '../kit/ActResult.tsx'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { Facts, type RowContent } from '../kit/Facts.tsx'
import { Instant } from '../kit/Instant.tsx'
import { RowPage } from '../kit/RowPage.tsx'
import { Status } from '../kit/Status.tsx'
import { RESOURCE_PAGES, resourceLabel } from '../resources.ts'
import type { PathTo } from '../api.ts'
import { invalidate, useAnswer } from '../queries.ts'
import { useMay } from '../session.tsx'
import { EditDialog, type EditField } from './EditDialog.tsx'
import { StatusNote } from './StatusNote.tsx'
import { partyName } from './PartyName.tsx'
import { VerificationSection } from './VerificationSection.tsx'

type Operation = Parameters<typeof useMay>[0]

export type Party<T, Update> = {
  type: KycSubjectType
  /** The API path of a party. */
  api_path: (id: string) => PathTo<T>
  /** The title of the list. */
  list: string
  fields: EditField<Update>[]
  /** Facts in addition to verification, creation and update. */
  facts: Record<string, (row: T) => ReactNode>
  update: { may: Operation; send: (id: string, changes: Update) => Answer<T> }
  removedAt: (row: T) => string | null
  removal: {
    verb: 'Archive' | 'Delete'
    may: Operation
    send: (id: string, options: RequestOptions) => Answer<T>
    /** The texts of the dialog before the act (`effect`) and after it (`outcome`). */
    effect: string
    outcome: string
    /** The text on the page of a removed row, after the time of its removal. */
    removed: string
  }
  /** The section above the verifications. */
  section: (id: string) => ReactNode
  note?: (row: T) => ReactNode
  action?: (row: T) => ReactNode
}

type AnyParty = Customer | Merchant | Recipient

export function PartyPage<T extends AnyParty, Update extends object>({
  of: party,
}: {
  of: Party<T, Update>
}) {
  const { type, api_path, list, facts, update, removedAt, removal, section, action } = party
  const id = usePathParam('id')
  const path = RESOURCE_PAGES[type].page
  const query = useAnswer<T>(api_path(id))
  const may_edit = useMay(update.may)
  const may_remove = useMay(removal.may)
  const { begin, props } = useDialogs<'edit' | 'removal'>()
  const label = resourceLabel(type)
  const name = query.data === undefined ? label : partyName(query.data)
  const RemovalIcon = removal.verb === 'Delete' ? Trash2 : Archive
  const all_facts: Record<string, RowContent<T>> = {
    ...facts,
    Verification: ({ kyc_status }: T) => <Status status={kyc_status} resource="kyc" />,
    Created: ({ created_at }: T) => <Instant at={created_at} />,
    Updated: ({ updated_at }: T) => <Instant at={updated_at} />,
  }
  return (
    <RowPage
      query={query}
      id={id}
      parent={{ to: path, title: list }}
      label={label}
      title={partyName}
      actions={(row) =>
        removedAt(row) === null && (
          <>
            {may_edit && (
              <Button leftSection={<Pencil size={14} />} onClick={() => begin('edit')}>
                Edit {type}
              </Button>
            )}
            {may_remove && (
              <Button leftSection={<RemovalIcon size={14} />} onClick={() => begin('removal')}>
                {removal.verb} {type}
              </Button>
            )}
            {action?.(row)}
          </>
        )
      }
      main={
        <>
          {query.data && <PartyNote of={party} row={query.data} />}
          <section>
            <Facts of={query.data} facts={all_facts} />
          </section>
          {section(id)}
          <VerificationSection
            type={type}
            id={id}
            name={name}
            removed={query.data !== undefined && removedAt(query.data) !== null}
          />
        </>
      }
    >
      {(row) => <PartyDialogs of={party} id={id} row={row} props={props} />}
    </RowPage>
  )
}

/** The note about a party, or the time of its removal. */
function PartyNote<T, Update>({
  of: { removal, removedAt, note },
  row,
}: {
  of: Pick<Party<T, Update>, 'removal' | 'removedAt' | 'note'>
  row: T
}) {
  if (removedAt(row) === null) return note?.(row)
  return (
    <StatusNote status={removal.verb === 'Delete' ? 'deleted' : 'archived'}>
      {removal.verb}d <Instant at={removedAt(row)} />. {removal.removed}
    </StatusNote>
  )
}

function PartyDialogs<T extends AnyParty, Update extends object>({
  of: { type, fields, update, removal },
  id,
  row,
  props,
}: {
  of: Party<T, Update>
  id: string
  row: T
  props: ReturnType<typeof useDialogs<'edit' | 'removal'>>['props']
}) {
  const path = RESOURCE_PAGES[type].page
  const name = partyName(row)
  return (
    <>
      <EditDialog
        {...props('edit')}
        title={`Edit ${name}`}
        action={`Save ${type}`}
        fields={fields}
        row={row}
        send={(changes) => update.send(id, changes)}
        onDone={() => invalidate(`/v1${path}`)}
      />
      <ConfirmDialog
        {...props('removal')}
        title={`${removal.verb} ${name}?`}
        action={`${removal.verb} ${type}`}
        tone="bad"
        effect={removal.effect}
        act={(idempotency_key) => actResponse(removal.send(id, { idempotency_key }))}
        onDone={() => invalidate(`/v1${path}`, '/v1/compliance')}
        outcome={(result) => <ActResultText of={result}>{removal.outcome}</ActResultText>}
      />
    </>
  )
}
