// Amounts of money on the pages: in the decimals of the API, for every currency that it takes.
import { expect, test } from 'vitest'
import { currencyCode, DECIMALS, moneyText, settlesExactly, STEPS } from '#core/money.ts'
import { DECIMALS as OF_PAGES, STEPS as STEPS_OF_PAGES } from '../src/dashboard/web/generated/currencies.ts'
import { formatMoney, stepHint, parseMoney, decimalAmount } from '../src/dashboard/web/kit/amounts.ts'

test('an amount is shown, typed and exported with the decimals that the API counts in', () => {
  expect(OF_PAGES).toEqual(DECIMALS)
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

test('currencies of which a browser knows other decimals are as the guide says', () => {
  const amounts = ['HUF', 'ISK', 'UGX', 'JPY', 'MGA', 'IQD', 'KWD'].map((currency) =>
    decimalAmount(100_000, currency),
  )
  expect(amounts).toEqual(['1000.00', '1000.00', '1000.00', '100000', '100000', '100.000', '100.000'])
})

test('an amount that the processor does not settle cannot be typed, by what it is for', () => {
  expect(STEPS_OF_PAGES).toEqual(STEPS)
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
