// The dialog that tops up the balance.
import { NativeSelect, TextInput } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { TopUp } from '#sdk/index.ts'
import { sluice, errorMessage } from '../api.ts'
import { DECIMALS } from '../generated/currencies.ts'
import { ActResultText, creationResult, type CreationResult } from '../kit/ActResult.tsx'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { formatMoney, stepHint, parseMoney } from '../kit/amounts.ts'
import { Status } from '../kit/Status.tsx'
import { invalidate } from '../queries.ts'
import { useSession } from '../session.tsx'
import { useBalances } from './balances.ts'
import { BalanceChange } from './BalanceChange.tsx'

export function TopUpDialog({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const { tenant } = useSession()
  const { data: balances = [] } = useBalances()
  const balance_currencies = balances.map((balance) => balance.currency)
  const [typed, setTyped] = useState({ amount: '', source: '', description: '' })
  const [chosen, setChosen] = useState<string>()
  const currency = chosen ?? balance_currencies[0] ?? 'usd'
  const amount_minor = parseMoney(typed.amount, currency, 'payment')
  const set = (some: Partial<typeof typed>) => setTyped((now) => ({ ...now, ...some }))

  function close(): void {
    onClose()
    setTyped({ amount: '', source: '', description: '' })
    setChosen(undefined)
  }

  const invalid_amount = typed.amount.trim() !== '' && !amount_minor
  return (
    <ConfirmDialog
      opened={opened}
      onClose={close}
      title={amount_minor ? `Top up ${formatMoney(amount_minor, currency)}?` : 'Top up'}
      action="Top up"
      effect="Adds money to your balance through the processor, which can take days. It is available when it arrives."
      ready={Boolean(amount_minor)}
      act={(idempotency_key) =>
        creationResult(
          sluice.wallet.topUps.create(
            {
              amount_minor: amount_minor ?? 0,
              currency,
              source: typed.source.trim() || null,
              description: typed.description.trim() || null,
            },
            { idempotency_key, wait_s: 10 },
          ),
          (error) => Object(error.context)['top_up_id'],
        )
      }
      operation={`top up ${tenant?.id ?? ''}`}
      onSettled={() => invalidate('/v1/wallet')}
      outcome={(result) => <Outcome result={result} />}
    >
      {(errorOf) => (
        <>
          <TextInput
            label="Amount"
            inputMode="decimal"
            value={typed.amount}
            error={
              invalid_amount
                ? `This is not an amount in ${currency.toUpperCase()}${stepHint(currency, 'payment')}.`
                : errorOf('amount_minor')
            }
            onChange={(event) => set({ amount: event.currentTarget.value })}
            data-autofocus
          />
          <CurrencyField
            balance_currencies={balance_currencies}
            value={currency}
            error={errorOf('currency')}
            onChange={setChosen}
          />
          <TextInput
            label="Source"
            description="A token of the processor. Leave empty to use the platform's bank account."
            classNames={{ input: 'mono' }}
            value={typed.source}
            error={errorOf('source')}
            onChange={(event) => set({ source: event.currentTarget.value })}
          />
          <TextInput
            label="Description"
            maxLength={1000}
            value={typed.description}
            error={errorOf('description')}
            onChange={(event) => set({ description: event.currentTarget.value })}
          />
          <BalanceChange currency={currency} change_minor={amount_minor} after="Available when it arrives" />
        </>
      )}
    </ConfirmDialog>
  )
}

function Outcome({ result }: { result: CreationResult<TopUp> }) {
  if ('refused' in result)
    return (
      <div className="stack">
        <div>The top-up failed. {errorMessage(result.refused)}</div>
        <Link to={`/wallet/top-ups/${result.id}`}>Go to the top-up</Link>
      </div>
    )
  const { data } = result.accepted
  return (
    <ActResultText of={result.accepted}>
      <div className="inline">
        <Status status={data.status} /> {formatMoney(data.amount_minor, data.currency)}
        <Link to={`/wallet/top-ups/${data.id}`}>Go to the top-up</Link>
      </div>
    </ActResultText>
  )
}

/** Currencies with a balance first, then all others. */
function CurrencyField({
  balance_currencies,
  value,
  error,
  onChange,
}: {
  balance_currencies: string[]
  value: string
  error: string | undefined
  onChange: (currency: string) => void
}) {
  const all = Object.keys(DECIMALS).map((code) => code.toLowerCase())
  const names = new Intl.DisplayNames(undefined, { type: 'currency' })
  const options = [...new Set([...balance_currencies, 'usd', 'eur', 'gbp', ...all])].map((code) => {
    const upper = code.toUpperCase()
    return { value: code, label: `${upper} ${names.of(upper) ?? ''}` }
  })
  return (
    <NativeSelect
      label="Currency"
      data={options}
      value={value}
      error={error}
      onChange={(event) => onChange(event.currentTarget.value)}
    />
  )
}
