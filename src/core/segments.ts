// The number of segments of an SMS: a character has seven bits if all characters are in the GSM alphabet, otherwise
// sixteen bits.

const BASIC = new Set(
  '@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !"#¤%&\'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà',
)
/** Characters that are encoded as an escape and a character. */
const EXTENDED = new Set('\f^{}\\[~]|€')

/**
 * The capacity of a segment, alone (`single`) or as one of several (`multiple`), in units of 7 bits (GSM-7) or 16
 * bits (UCS-2).
 */
const SEGMENT_UNITS = {
  'GSM-7': { single: 160, multiple: 153 },
  'UCS-2': { single: 70, multiple: 67 },
} as const

export type SmsEncoding = keyof typeof SEGMENT_UNITS

/** The encoding and number of segments of an SMS text. No segment ends within a character. */
export function segmentsOf(text: string): { encoding: SmsEncoding; segments: number } {
  const characters = Array.from(text)
  const encoding = characters.every((each) => BASIC.has(each) || EXTENDED.has(each)) ? 'GSM-7' : 'UCS-2'
  const units = characters.map((each) =>
    encoding === 'GSM-7' ? 1 + Number(EXTENDED.has(each)) : each.length,
  )
  const { single, multiple: max_units } = SEGMENT_UNITS[encoding]
  if (units.reduce((sum, each) => sum + each, 0) <= single) return { encoding, segments: 1 }
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
