// Settings, Email: the sender domains of the tenant. Operators add and remove them.
import { Button, TextInput } from '@mantine/core'
import { Plus } from 'lucide-react'
import { useState, type ReactNode } from 'react'
import type { Answers } from '../../generated/answers.ts'
import { sendAct, ActResultText } from '../../kit/ActResult.tsx'
import { ConfirmDialog } from '../../kit/ConfirmDialog.tsx'
import { DataTable, type TableColumn } from '../../kit/DataTable.tsx'
import { singlePageList, type TableList } from '../../kit/list.ts'
import { EmptyState } from '../../kit/states.tsx'
import { invalidate, useAnswer } from '../../queries.ts'
import { useSession } from '../../session.tsx'

type DomainsAnswer = Answers['GET /email-domains']

const LIST_FORMAT = new Intl.ListFormat('en', { type: 'disjunction' })
const ANY_SENDER = "any address but the system's own"
const EFFECT_TEXT = 'This takes effect within a second, also for scheduled and queued email.'

export function EmailTab() {
  const { is_operator } = useSession()
  const query = useAnswer<DomainsAnswer>('/email-domains')
  const [open, setOpen] = useState<'add' | 'remove' | 'default'>()
  // The domain of the open dialog, kept while the dialog closes.
  const [removed, setRemoved] = useState('')
  const close = () => setOpen(undefined)
  const { data } = query
  const has_list = data !== undefined && data.domains !== null
  const default_senders =
    data === undefined || data.of_installation.length === 0 ? ANY_SENDER : atDomains(data.of_installation)
  return (
    <>
      <div className="filters">
        <p className="dim">
          The domains from which this tenant may send email.
          {!is_operator && ' Only an operator can change them.'}
        </p>
        {is_operator && (
          <div className="filters-end">
            {has_list && <Button onClick={() => setOpen('default')}>Use the default</Button>}
            <Button variant="filled" leftSection={<Plus size={14} />} onClick={() => setOpen('add')}>
              Add domain
            </Button>
          </div>
        )}
      </div>
      <DomainsTable
        list={singlePageList(query, data?.domains ?? (data && []))}
        empty={
          has_list ? (
            <EmptyState title="No domains">
              Email of this tenant is sent from the installation's address only.
            </EmptyState>
          ) : (
            <EmptyState title="No list of its own">
              Email of this tenant may be from {default_senders}.
            </EmptyState>
          )
        }
        remove={(domain) => {
          setRemoved(domain)
          setOpen('remove')
        }}
      />
      <AddDialog opened={open === 'add'} onClose={close} has_list={has_list} />
      <RemoveDialog opened={open === 'remove'} onClose={close} domain={removed} />
      <DefaultDialog opened={open === 'default'} onClose={close} default_senders={default_senders} />
    </>
  )
}

function DomainsTable({
  list,
  empty,
  remove,
}: {
  list: TableList<string>
  empty: ReactNode
  remove: (domain: string) => void
}) {
  const { is_operator } = useSession()
  const columns: TableColumn<string>[] = [
    { title: 'Domain', cell: (domain) => <span className="mono">{domain}</span> },
    {
      title: '',
      align: 'end',
      cell: (domain) =>
        is_operator && (
          <Button size="compact-xs" aria-label={`Remove ${domain}`} onClick={() => remove(domain)}>
            Remove
          </Button>
        ),
    },
  ]
  return (
    <DataTable
      label="Domains"
      list={list}
      columns={columns}
      rowKey={(domain) => domain}
      paged={false}
      empty={empty}
    />
  )
}

function RemoveDialog({ domain, ...dialog }: { opened: boolean; onClose: () => void; domain: string }) {
  return (
    <ConfirmDialog
      {...dialog}
      title={`Remove ${domain}?`}
      action="Remove"
      tone="bad"
      effect={`Email of this tenant may no longer be from addresses at ${domain}. ${EFFECT_TEXT} Queued email from these addresses fails.`}
      act={() => sendAct('POST', '/email-domains/remove', { domain })}
      onDone={() => invalidate('/email-domains')}
      outcome={(result) => (
        <ActResultText of={result} true_if_accepted>
          {domain} is removed.
        </ActResultText>
      )}
    />
  )
}

function DefaultDialog({
  default_senders,
  ...dialog
}: {
  opened: boolean
  onClose: () => void
  default_senders: string
}) {
  return (
    <ConfirmDialog
      {...dialog}
      title="Use the default?"
      action="Use the default"
      effect={`The list of this tenant is removed: its email may be from ${default_senders}. ${EFFECT_TEXT}`}
      act={() => sendAct('POST', '/email-domains/default', {})}
      onDone={() => invalidate('/email-domains')}
      outcome={(result) => (
        <ActResultText of={result} true_if_accepted>
          The default applies.
        </ActResultText>
      )}
    />
  )
}

function AddDialog({
  opened,
  onClose,
  has_list,
}: {
  opened: boolean
  onClose: () => void
  has_list: boolean
}) {
  const [text, setText] = useState('')
  const domain = text.trim()
  const domain_text = domain === '' ? 'the domain' : domain
  return (
    <ConfirmDialog
      opened={opened}
      onClose={() => {
        onClose()
        setText('')
      }}
      title="Add a domain"
      action="Add domain"
      effect={
        has_list
          ? `Email of this tenant may be from addresses at ${domain_text} too.`
          : `Email of this tenant may be from addresses at ${domain_text} only, and from the installation's address, because this creates the list. ${EFFECT_TEXT}`
      }
      ready={domain !== ''}
      act={() => sendAct('POST', '/email-domains', { domain })}
      onDone={() => invalidate('/email-domains')}
      outcome={(result) => (
        <ActResultText of={result} true_if_accepted>
          {domain} is added.
        </ActResultText>
      )}
    >
      {(errorOf) => (
        <TextInput
          label="Domain"
          placeholder="shop.example"
          data-autofocus
          value={text}
          error={errorOf('domain')}
          onChange={(event) => setText(event.currentTarget.value)}
        />
      )}
    </ConfirmDialog>
  )
}

function atDomains(domains: string[]): string {
  return `addresses at ${LIST_FORMAT.format(domains)}`
}
