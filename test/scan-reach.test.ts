// When scans that have become slow read only recent rows.
import { expect, onTestFinished, test, vi } from 'vitest'
import { createScanReach } from '#workers/scan-reach.ts'

test('a pause ends when all rows must be read, because what waits after that is not recent', () => {
  const clock = vi.spyOn(performance, 'now').mockReturnValue(0)
  onTestFinished(() => clock.mockRestore())
  let must_read_all = false
  const reach = createScanReach('jobs', () => must_read_all)
  for (let scan = 0; scan < 2; scan++) reach.measured('all', 150, 0)
  const reaches = [reach.next()]
  must_read_all = true
  reaches.push(reach.next())
  must_read_all = false
  reaches.push(reach.next())
  expect(reaches).toEqual(['recent', 'all', 'all'])
})
