// The dialog that creates a payout from the available balance to a recipient.
import { Select, TextInput } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { Payout, Recipient } from '#sdk/index.ts'
import { sluice, errorMessage } from '../api.ts'
import { ActResultText, creationResult, type CreationResult } from '../kit/ActResult.tsx'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { UUID } from '../kit/Id.tsx'
import { formatMoney, stepHint, parseMoney } from '../kit/amounts.ts'
import { Status } from '../kit/Status.tsx'
import { invalidate, useAnswer } from '../queries.ts'
import { BalanceChange } from '../wallet/BalanceChange.tsx'

/** Without `recipient`, the dialog has a field for it. The currency is the recipient's. */
export function NewPayout({
  opened,
  onClose,
  recipient,
}: {
  opened: boolean
  onClose: () => void
  recipient?: Recipient
}) {
  const [typed, setTyped] = useState({ amount: '', description: '' })
  const [chosen, setChosen] = useState<Recipient>()
  const payee = recipient ?? chosen
  const amount_minor = payee && parseMoney(typed.amount, payee.currency, 'payout')

  function close(): void {
    onClose()
    setTyped({ amount: '', description: '' })
    setChosen(undefined)
  }

  const invalid_amount = payee !== undefined && typed.amount.trim() !== '' && !amount_minor
  return (
    <ConfirmDialog
      opened={opened}
      onClose={close}
      title={
        payee !== undefined && amount_minor
          ? `Pay ${formatMoney(amount_minor, payee.currency)} to ${payee.name}?`
          : recipient === undefined
            ? 'New payout'
            : `New payout to ${recipient.name}`
      }
      action="Create payout"
      effect="The amount is reserved at once, and leaves your balance when the processor pays it."
      ready={Boolean(amount_minor)}
      act={(idempotency_key) =>
        creationResult(
          sluice.payouts.create(
            {
              amount_minor: amount_minor ?? 0,
              currency: payee?.currency ?? '',
              recipient_id: payee?.id ?? '',
              description: typed.description.trim() || null,
            },
            { idempotency_key, wait_s: 10 },
          ),
          (error) => Object(error.context)['payout_id'],
        )
      }
      operation={payee && `payout ${payee.id}`}
      onSettled={() => invalidate('/v1/payouts', '/v1/wallet')}
      outcome={(result) => <Outcome result={result} />}
    >
      {(errorOf) => (
        <>
          {recipient === undefined && (
            <RecipientField chosen={chosen} choose={setChosen} error={errorOf('recipient_id')} />
          )}
          <AmountField
            currency={payee?.currency}
            value={typed.amount}
            error={
              invalid_amount
                ? `This is not an amount in ${payee.currency.toUpperCase()}${stepHint(payee.currency, 'payout')}.`
                : (errorOf('amount_minor') ?? errorOf('currency'))
            }
            onChange={(amount) => setTyped((now) => ({ ...now, amount }))}
            autofocus={recipient !== undefined}
          />
          <TextInput
            label="Description"
            maxLength={1000}
            value={typed.description}
            error={errorOf('description')}
            onChange={(event) => {
              const description = event.currentTarget.value
              setTyped((now) => ({ ...now, description }))
            }}
          />
          {payee !== undefined && (
            <BalanceChange
              currency={payee.currency}
              change_minor={amount_minor === undefined ? undefined : -amount_minor}
              after="Available after this payout"
            />
          )}
        </>
      )}
    </ConfirmDialog>
  )
}

/** The field for the amount. `currency` undefined: no recipient is selected. */
function AmountField({
  currency,
  value,
  error,
  onChange,
  autofocus,
}: {
  currency: string | undefined
  value: string
  error: string | undefined
  onChange: (amount: string) => void
  autofocus: boolean
}) {
  return (
    <TextInput
      label={currency === undefined ? 'Amount' : `Amount in ${currency.toUpperCase()}`}
      aria-label="Amount"
      inputMode="decimal"
      disabled={currency === undefined}
      value={value}
      error={error}
      onChange={(event) => onChange(event.currentTarget.value)}
      data-autofocus={autofocus || undefined}
    />
  )
}

/** Selects one of the newest recipients by name, or any recipient by id. */
function RecipientField({
  chosen,
  choose,
  error,
}: {
  chosen: Recipient | undefined
  choose: (recipient: Recipient | undefined) => void
  error: string | undefined
}) {
  const [text, setText] = useState('')
  const id = text.trim().toLowerCase()
  const { data: newest } = useAnswer<Recipient[]>('/v1/recipients', { limit: 100 })
  const { data: by_id } = useAnswer<Recipient>(`/v1/recipients/${id}`, undefined, {
    enabled: UUID.test(id),
  })
  const choices = new Map(
    [
      ...(newest ?? []),
      ...(by_id === undefined ? [] : [by_id]),
      ...(chosen === undefined ? [] : [chosen]),
    ].map((each) => [each.id, each]),
  )
  return (
    <Select
      label="Recipient"
      description="By name or id."
      placeholder="Choose a recipient"
      searchable
      // A full id also finds recipients that are not among the newest.
      filter={({ options, search }) => {
        const query = search.trim().toLowerCase()
        return options.filter(
          (option) =>
            'value' in option &&
            (option.label.toLowerCase().includes(query) || option.value.startsWith(query)),
        )
      }}
      searchValue={text}
      onSearchChange={setText}
      nothingFoundMessage={newest === undefined ? 'Loading' : 'No such recipient'}
      maxDropdownHeight={240}
      data={[...choices.values()].map(({ id: value, name, currency, destination }) => ({
        value,
        label: `${name} · ${currency.toUpperCase()} · ${destination}`,
      }))}
      value={chosen?.id ?? null}
      onChange={(value) => choose(value === null ? undefined : choices.get(value))}
      error={error}
      data-autofocus
    />
  )
}

function Outcome({ result }: { result: CreationResult<Payout> }) {
  if ('refused' in result)
    return (
      <div className="stack">
        <div>The payout failed, and nothing is reserved. {errorMessage(result.refused)}</div>
        <Link to={`/payouts/${result.id}`}>Go to the payout</Link>
      </div>
    )
  const { data } = result.accepted
  return (
    <ActResultText of={result.accepted}>
      <div className="inline">
        <Status status={data.status} /> {formatMoney(data.amount_minor, data.currency)}
        <Link to={`/payouts/${data.id}`}>Go to the payout</Link>
      </div>
    </ActResultText>
  )
}
