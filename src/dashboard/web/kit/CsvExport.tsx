// Exports all pages of a filtered list as a CSV file.
import { Button } from '@mantine/core'
import { Download } from 'lucide-react'
import { useEffect, useRef, useState } from 'react'
import { readAll } from '../api.ts'
import { MODE } from '../mode.ts'
import { UTF8_BOM, csvLine } from './csv.ts'
import type { TableColumn } from './DataTable.tsx'
import type { ListState } from './list.ts'
import { notify } from './notices.tsx'
import { counted } from './counts.ts'

/**
 * Reads the list page by page into the file `name`, shows the number of rows, and can be canceled. The file has the
 * columns with `csv`.
 */
export function CsvExport<T>({
  list,
  columns,
  name,
}: {
  list: Pick<ListState<T>, 'path' | 'filters'>
  columns: TableColumn<T>[]
  name: string
}) {
  const file = fileName(name, list.filters)
  const [count, setCount] = useState<number>()
  const running_export = useRef<AbortController>(undefined)
  useEffect(() => () => running_export.current?.abort(), [])

  async function run(): Promise<void> {
    const { signal } = (running_export.current = new AbortController())
    const exported_columns = columns.flatMap(({ title, csv }) => (csv === undefined ? [] : [{ title, csv }]))
    const lines = [UTF8_BOM, csvLine(exported_columns.map(({ title }) => title))]
    let rows = 0
    setCount(0)
    try {
      for await (const page of readAll<T>(list.path, list.filters, signal)) {
        lines.push(...page.map((row) => csvLine(exported_columns.map(({ csv }) => csv(row)))))
        setCount((rows += page.length))
      }
      save(new Blob(lines, { type: 'text/csv;charset=utf-8' }), file)
      notify({ tone: 'good', text: `${counted(rows, 'row')} exported to ${file}.` })
    } catch (error) {
      if (!signal.aborted)
        notify({ tone: 'bad', text: `The export stopped after ${counted(rows, 'row')}: ${String(error)}` })
    } finally {
      setCount(undefined)
    }
  }

  if (count === undefined)
    return (
      <Button leftSection={<Download size={14} />} onClick={() => void run()}>
        Export CSV
      </Button>
    )
  return (
    <div className="inline">
      <span className="dim figures" role="status">
        {counted(count, 'row')}
      </span>
      <Button onClick={() => running_export.current?.abort()}>Cancel export</Button>
    </div>
  )
}

/**
 * The filters and the date are added to the name: `payments.csv` becomes `payments-captured-USD-2026-11-24.csv`, in
 * test mode `test-payments-…`.
 */
function fileName(name: string, filters: ListState<unknown>['filters']): string {
  const set = Object.values(filters).map((value) => String(value ?? '').replaceAll(/[^\w-]+/g, '_'))
  const list_name = name.replace(/\.csv$/, '')
  const file_parts = [MODE === 'test' ? 'test' : '', list_name, ...set, new Date().toISOString().slice(0, 10)]
  return `${file_parts
    .filter((word) => word !== '')
    .join('-')
    .slice(0, MAX_FILE_NAME_LENGTH)}.csv`
}

const MAX_FILE_NAME_LENGTH = 120

function save(file: Blob, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(file)
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
}
