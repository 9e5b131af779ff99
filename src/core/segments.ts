// Into how many parts an SMS is cut: seven bits a character where all are in the GSM alphabet, else sixteen.

const BASIC = new Set(
  '@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !"#¤%&\'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà',
)
/** Those that are written as an escape and a character. */
const EXTENDED = new Set('\f^{}\\[~]|€')

/** What fits into a message of one part, and into each of several, in units: septets, or sixteen bits. */
const SEGMENT_UNITS = { 'GSM-7': { one: 160, each: 153 }, 'UCS-2': { one: 70, each: 67 } } as const

export type SmsEncoding = keyof typeof SEGMENT_UNITS

/** How a text is written as an SMS, and in how many parts. No part ends within a character. */
export function segmentsOf(text: string): { encoding: SmsEncoding; segments: number } {
  const characters = Array.from(text)
  const encoding = characters.every((each) => BASIC.has(each) || EXTENDED.has(each)) ? 'GSM-7' : 'UCS-2'
  const units = characters.map((each) =>
    encoding === 'GSM-7' ? 1 + Number(EXTENDED.has(each)) : each.length,
  )
  const { one, each: max_units } = SEGMENT_UNITS[encoding]
  if (units.reduce((sum, each) => sum + each, 0) <= one) return { encoding, segments: 1 }
  let segments = 1
  let used = 0
  for (const unit of units) {
    if (used + unit > max_units) {
      segments += 1
      used = 0
    }
    used += unit
  }
  return { encoding, segments }
}
