// The page of one customer, merchant or recipient, as its record says.
import { Button } from '@mantine/core'
import { Archive, Pencil, Trash2 } from 'lucide-react'
import type { ReactNode } from 'react'
import type { Answer, Customer, KycSubjectType, Merchant, Recipient, RequestOptions } from '#sdk/index.ts'
import { usePathParam } from '../address.ts'
import { useDialogs } from '../dialogs.ts'
import { acted, ActedOutcome } from '../kit/Acted.tsx'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { Facts, type Shown } from '../kit/Facts.tsx'
import { Instant } from '../kit/Instant.tsx'
import { RowPage } from '../kit/RowPage.tsx'
import { Status } from '../kit/Status.tsx'
import { NOUN_PAGES, nounWords } from '../nouns.ts'
import type { PathTo } from '../api.ts'
import { invalidate, useAnswer } from '../queries.ts'
import { useMay } from '../session.tsx'
import { EditDialog, type EditField } from './EditDialog.tsx'
import { Note } from './Note.tsx'
import { partyName } from './PartyName.tsx'
import { VerificationSection } from './VerificationSection.tsx'

type Operation = Parameters<typeof useMay>[0]

export type Party<T, Update> = {
  type: KycSubjectType
  /** Where the API has it. */
  answer: (id: string) => PathTo<T>
  /** The list that it belongs to. */
  list: string
  fields: EditField<Update>[]
  /** Besides its verification and when it was written. */
  facts: Record<string, (row: T) => ReactNode>
  update: { may: Operation; send: (id: string, changes: Update) => Answer<T> }
  goneAt: (row: T) => string | null
  end: {
    verb: 'Archive' | 'Delete'
    may: Operation
    send: (id: string, options: RequestOptions) => Answer<T>
    /** What the dialog says before, and what it then came to. */
    does: string
    outcome: string
    /** What is said of it ever after, behind when it was. */
    gone: string
  }
  /** Above its verifications. */
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
  const { type, answer, list, facts, update, goneAt, end, section, action } = party
  const id = usePathParam('id')
  const path = NOUN_PAGES[type].page
  const query = useAnswer<T>(answer(id))
  const may_edit = useMay(update.may)
  const may_end = useMay(end.may)
  const { begin, props } = useDialogs<'edit' | 'end'>()
  const word = nounWords(type)
  const name = query.data === undefined ? word : partyName(query.data)
  const EndIcon = end.verb === 'Delete' ? Trash2 : Archive
  const all_facts: Record<string, Shown<T>> = {
    ...facts,
    Verification: ({ kyc_status }: T) => <Status status={kyc_status} noun="kyc" />,
    Created: ({ created_at }: T) => <Instant at={created_at} />,
    Updated: ({ updated_at }: T) => <Instant at={updated_at} />,
  }
  return (
    <RowPage
      query={query}
      id={id}
      above={{ to: path, title: list }}
      word={word}
      title={partyName}
      actions={(row) =>
        goneAt(row) === null && (
          <>
            {may_edit && (
              <Button leftSection={<Pencil size={14} />} onClick={() => begin('edit')}>
                Edit {type}
              </Button>
            )}
            {may_end && (
              <Button leftSection={<EndIcon size={14} />} onClick={() => begin('end')}>
                {end.verb} {type}
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
            gone={query.data !== undefined && goneAt(query.data) !== null}
          />
        </>
      }
    >
      {(row) => <PartyDialogs of={party} id={id} row={row} props={props} />}
    </RowPage>
  )
}

/** What is to be known of it, or that it was deleted or archived. */
function PartyNote<T, Update>({
  of: { end, goneAt, note },
  row,
}: {
  of: Pick<Party<T, Update>, 'end' | 'goneAt' | 'note'>
  row: T
}) {
  if (goneAt(row) === null) return note?.(row)
  return (
    <Note status={end.verb === 'Delete' ? 'deleted' : 'archived'}>
      {end.verb}d <Instant at={goneAt(row)} />. {end.gone}
    </Note>
  )
}

function PartyDialogs<T extends AnyParty, Update extends object>({
  of: { type, fields, update, end },
  id,
  row,
  props,
}: {
  of: Party<T, Update>
  id: string
  row: T
  props: ReturnType<typeof useDialogs<'edit' | 'end'>>['props']
}) {
  const path = NOUN_PAGES[type].page
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
        {...props('end')}
        title={`${end.verb} ${name}?`}
        action={`${end.verb} ${type}`}
        tone="bad"
        does={end.does}
        act={(idempotency_key) => acted(end.send(id, { idempotency_key }))}
        onDone={() => invalidate(`/v1${path}`, '/v1/compliance')}
        outcome={(result) => <ActedOutcome of={result}>{end.outcome}</ActedOutcome>}
      />
    </>
  )
}
