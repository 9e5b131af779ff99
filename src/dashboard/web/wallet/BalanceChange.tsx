// The available balance before and after an act.
import type { ReactNode } from 'react'
import { Skeleton } from '../kit/Skeleton.tsx'
import { Money } from '../kit/Money.tsx'
import { useAreaState } from '../session.tsx'
import { useBalances } from './balances.ts'
import '../parties/parties.css'

/** The available balance in `currency` now, and after adding `change_minor`. Undefined: no amount yet. */
export function BalanceChange({
  currency,
  change_minor,
  after,
}: {
  currency: string
  change_minor: number | undefined
  after: string
}) {
  const { data, error } = useBalances()
  const deployed = useAreaState('wallet') === 'deployed'
  // Currencies without transactions are not listed.
  const before =
    data === undefined
      ? undefined
      : (data.find((balance) => balance.currency === currency)?.available_minor ?? 0)
  const then = before === undefined || change_minor === undefined ? undefined : before + change_minor
  const amountOr = (minor: number | undefined, none: ReactNode) =>
    minor === undefined ? none : <Money minor={minor} currency={currency} />
  const missing = error === null ? <Skeleton width={80} /> : 'unknown'
  if (!deployed) return null
  return (
    <dl className="balance-change" aria-label={`Balance in ${currency.toUpperCase()}`} aria-live="polite">
      <div>
        <dt>Available now</dt>
        <dd>{amountOr(before, missing)}</dd>
      </div>
      <div>
        <dt>{after}</dt>
        <dd data-short={(then ?? 0) < 0 || undefined}>{amountOr(then, '–')}</dd>
      </div>
    </dl>
  )
}
