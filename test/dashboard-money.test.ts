// Amounts of money on the pages have the decimals of the API, for every supported currency.
import { expect, test } from 'vitest'
import { currencyCode, DECIMALS, moneyText, settlesExactly, STEPS } from '#core/money.ts'
import { DECIMALS as PAGE_DECIMALS, STEPS as PAGE_STEPS } from '../src/dashboard/web/generated/currencies.ts'
import { formatMoney, stepHint, parseMoney, decimalAmount } from '../src/dashboard/web/kit/amounts.ts'
import { counted } from '../src/dashboard/web/kit/counts.ts'

test('an amount is shown, typed and exported with the decimals of the API', () => {
  expect(PAGE_DECIMALS).toEqual(DECIMALS)
  for (const [currency, decimals] of Object.entries(DECIMALS)) {
    expect(currencyCode.parse(currency)).toBe(currency)
    const shown = formatMoney(1_234_567, currency)
    const [, part = ''] = /\.(\d+)\D*$/.exec(shown) ?? []
    expect([currency, shown.replaceAll(/\D/g, ''), part.length]).toEqual([currency, '1234567', decimals])
    const typed = decimalAmount(1_234_567, currency.toLowerCase())
    expect([typed, parseMoney(typed, currency)]).toEqual([
      (1_234_567 / 10 ** decimals).toFixed(decimals),
      1_234_567,
    ])
    expect(parseMoney('5000', currency)).toBe(5000 * 10 ** decimals)
    expect(parseMoney(`1.${'0'.repeat(decimals + 1)}`, currency)).toBe(undefined)
  }
})

test('an amount has the decimals that the guide to payments gives for its currency, even if browsers use others', () => {
  const amounts = ['HUF', 'ISK', 'UGX', 'JPY', 'MGA', 'IQD', 'KWD'].map((currency) =>
    decimalAmount(100_000, currency),
  )
  expect(amounts).toEqual(['1000.00', '1000.00', '1000.00', '100000', '100000', '100.000', '100.000'])
})

test('an amount that the processor cannot settle as a payment or payout is refused', () => {
  expect(PAGE_STEPS).toEqual(STEPS)
  for (const use of ['payment', 'payout'] as const)
    for (const currency of Object.keys(DECIMALS))
      for (const minor of [1_000_100, 1_000_010, 1_000_001])
        expect([use, currency, minor, parseMoney(decimalAmount(minor, currency), currency, use)]).toEqual([
          use,
          currency,
          minor,
          settlesExactly(minor, currency, use) ? minor : undefined,
        ])
  expect(parseMoney('10.50', 'HUF', 'payment')).toBe(1050)
  expect(parseMoney('10.50', 'HUF', 'payout')).toBe(undefined)
  expect([stepHint('usd', 'payout'), stepHint('kwd', 'payment').replaceAll(/\s/g, ' ')]).toEqual([
    '',
    ' in steps of KWD 0.010',
  ])
})

test('an amount in a text has the decimals of its currency', () => {
  expect([moneyText(7100, 'usd'), moneyText(500, 'JPY'), moneyText(-1230, 'kwd')]).toEqual([
    'USD 71.00',
    'JPY 500',
    'KWD -1.230',
  ])
})

test('a text with the number 1 is in the singular', () => {
  const texts = [0, 1, 2].map((count) => counted(count, 'recent event is', 'recent events are'))
  expect(texts).toEqual(['0 recent events are', '1 recent event is', '2 recent events are'])
  expect([counted(1, 'job'), counted(12, 'job')]).toEqual(['1 job', '12 jobs'])
})
