// The files that lists are exported to.
import { expect, test } from 'vitest'
import { UTF8_BOM, csvLine } from '../src/dashboard/web/kit/csv.ts'

test('an amount keeps its digits and its sign, and what a spreadsheet would run is a text', () => {
  expect(csvLine(['12.50', '-12.50', null, 3])).toBe('12.50,-12.50,,3\r\n')
  expect(csvLine(['-1+cmd|x', '=1', '+45 12', 'a,"b"'])).toBe(`'-1+cmd|x,'=1,'+45 12,"a,""b"""\r\n`)
})

test('a number is a number, with a sign too, and the file says that it is UTF-8', () => {
  expect(csvLine(['+12.50', '-3', '0.1', '+4915112345678', '+1+1', '-2.5.1', '+1 (555)', '1e5'])).toBe(
    "+12.50,-3,0.1,+4915112345678,'+1+1,'-2.5.1,'+1 (555),1e5\r\n",
  )
  expect([...Buffer.from(UTF8_BOM)]).toEqual([0xef, 0xbb, 0xbf])
})

test('where a semicolon separates cells, what follows it is no formula either', () => {
  expect(csvLine(["x;=cmd|' /C calc'!A0", ' =1', 'ink; paper', '\t@x'])).toBe(
    `"x;'=cmd|' /C calc'!A0",' =1,"ink; paper","'\t'@x"\r\n`,
  )
  // A quote within a cell keeps nothing together there.
  const cells = csvLine(['Ann', "x;=1+cmd|' /C calc'!A0;", 'a\n@b']).split(/[;\r\n]/)
  expect(cells.filter((cell) => /^\s*[=+\-@]/.test(cell))).toEqual([])
})

test('the wide and small forms of what begins a formula are no formula either', () => {
  expect(csvLine(['＝1+1', 'x;＠a', ' ＋1', '－1', '﹦1', '1＝1'])).toBe(
    "'＝1+1,\"x;'＠a\",' ＋1,'－1,'﹦1,1＝1\r\n",
  )
})
