// Tests the CSV files of exported lists.
import { expect, test } from 'vitest'
import { UTF8_BOM, csvLine } from '../src/dashboard/web/kit/csv.ts'

test('an amount keeps its digits and its sign, and text that looks like a formula is escaped', () => {
  expect(csvLine(['12.50', '-12.50', null, 3])).toBe('12.50,-12.50,,3\r\n')
  expect(csvLine(['-1+cmd|x', '=1', '+45 12', 'a,"b"'])).toBe(`'-1+cmd|x,'=1,'+45 12,"a,""b"""\r\n`)
})

test('a number with a sign stays a number, and the file begins with the UTF-8 byte order mark', () => {
  expect(csvLine(['+12.50', '-3', '0.1', '+4915112345678', '+1+1', '-2.5.1', '+1 (555)', '1e5'])).toBe(
    "+12.50,-3,0.1,+4915112345678,'+1+1,'-2.5.1,'+1 (555),1e5\r\n",
  )
  expect([...Buffer.from(UTF8_BOM)]).toEqual([0xef, 0xbb, 0xbf])
})

test('text after a semicolon is escaped, because a semicolon can separate cells', () => {
  expect(csvLine(["x;=cmd|' /C calc'!A0", ' =1', 'ink; paper', '\t@x'])).toBe(
    `"x;'=cmd|' /C calc'!A0",' =1,"ink; paper","'\t'@x"\r\n`,
  )
  // Where a semicolon separates cells, a quote inside a cell does not protect the text after it.
  const cells = csvLine(['Ann', "x;=1+cmd|' /C calc'!A0;", 'a\n@b']).split(/[;\r\n]/)
  expect(cells.filter((cell) => /^\s*[=+\-@]/.test(cell))).toEqual([])
})

test('the full-width and small forms of the characters that begin a formula are escaped', () => {
  expect(csvLine(['＝1+1', 'x;＠a', ' ＋1', '－1', '﹦1', '1＝1'])).toBe(
    "'＝1+1,\"x;'＠a\",' ＋1,'－1,'﹦1,1＝1\r\n",
  )
})
