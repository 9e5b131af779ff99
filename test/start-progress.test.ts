// The progress that `npm start` prints.
import { expect, test } from 'vitest'
import { createProgress } from '#start/steps.ts'

/** The printed text, with durations as `0.0 s` and one dot for the dots between a name and a duration. */
const printed = (parts: string[]) =>
  parts
    .join('')
    .replaceAll(/[\d.]+ s/g, '0.0 s')
    .replaceAll(/\.{3,}/g, '.')

test('a line during a step ends the open line, and the step prints its name again when it ends', async () => {
  const parts: string[] = []
  const { step, endLine } = createProgress((text) => parts.push(text))
  await step('Redis', async () => {
    endLine()
    parts.push('a warning\n')
    endLine()
    parts.push('another\n')
  })
  await step('Migrations', async () => {})
  await expect(step('Parts', () => Promise.reject(new Error('no')))).rejects.toThrow('no')
  expect(printed(parts)).toBe(
    '  Redis . \na warning\nanother\n  Redis . 0.0 s\n  Migrations . 0.0 s\n  Parts . failed\n',
  )
})
