// Headers that control the relay of an email: they add recipients, choose streams and senders, bypass suppressions,
// or turn reports off. Any relay may be behind SMTP_URL, so the headers of all known relays are refused, and headers
// with similar names.

const SLUICE_PREFIX = 'x-sluice-'
/** Names, or prefixes that end with `-`, in lower case. */
const RELAY_CONTROL_HEADERS = [
  SLUICE_PREFIX,
  // SendGrid; Mailchimp Transactional (Mandrill) and MailChannels; SparkPost; Amazon SES; Postmark; Mailgun; Mailjet.
  'x-smtpapi',
  'x-sg-',
  'x-mc-',
  'x-mandrill-',
  'x-mailchannels-',
  'x-msys-',
  'x-sparkpost-',
  'x-ses-',
  'x-amz-',
  'x-amazon-',
  'x-pm-',
  'x-postmark-',
  'x-mailgun-',
  'x-mj-',
  'x-mailjet-',
  // Brevo; Elastic Email; SocketLabs; Mailtrap; SMTP2GO; Resend; Scaleway; Sendmachine; Infobip; Contactlab; UniOne.
  'x-mailin-',
  'x-sib-',
  'x-brevo-',
  'x-elasticemail-',
  'x-xsmessageid',
  'x-xsmailingid',
  'x-socketlabs-',
  'x-mt-',
  'x-mailtrap-',
  'x-smtp2go-',
  'x-resend-',
  'x-scw-',
  'x-scaleway-',
  'x-sm-',
  'x-infobip-',
  'x-clab-',
  'x-unione',
  'x-unione-',
  // MailerSend; Lettermint; AhaSend; MailPace; Maileroo; ZeptoMail; Sweego; Emailit; Netcore.
  'x-mailersend-',
  'x-lettermint-',
  'x-lm-tag',
  'x-ahasend-',
  'x-mailpace-',
  'x-maileroo-',
  'x-zeptomail-',
  'x-sweego-',
  'x-emailit-',
  'x-apiheader',
  'x-tags',
  'x-pepipost-',
  // Campaigner; Campaign Monitor; ReachMail; SMTPeter; EmailDelivery.com; Zoho and others.
  'x-cmp-',
  'x-cmail-',
  'x-rm-',
  'x-smtpeter-',
  'x-transactional-',
  'x-tm-',
  // Wooxy and ReachMail, with generic names.
  'x-header',
  'x-message-priority',
  'x-ignore-',
  'x-address',
  // Self-hosted servers: PowerMTA, KumoMTA, GreenArrow, Postal, Halon, Exchange, Google.
  'x-virtual-mta',
  'x-job',
  'x-kumoref',
  'x-tenant',
  'x-greenarrow-',
  'x-postal-',
  'x-halon-',
  'x-ms-',
  'x-microsoft-',
  'x-gm-',
  'x-google-',
  // Headers that servers write and may trust: the envelope, senders, verdicts.
  'x-envelope-',
  'x-return-path',
  'x-original-',
  'x-delivered-to',
  'x-forwarded-',
  'x-rcpt-',
  'x-receiver',
  'x-sender',
  'x-authenticated-',
  'x-errors-to',
  'x-feedback-id',
  'x-spam-',
  'x-virus-',
]

/**
 * Common words in control headers, also of unknown relays: recipients, campaigns, templates, tags, tracking, the
 * addresses and streams that send an email, and its bounce address.
 */
const RELAY_CONTROL_PATTERN =
  /-((ip)?pools?|tags?|profiles?|streams?|v?mta|verp|subaccounts?|sandbox)(-|$)|bcc|-(campaign|template|track|meta-?data|dkim|smtp|recipient|bounce|unsubscribe|suppression|substitution|merge|envelope)/

/** Whether this is a header that Sluice sets to identify messages. */
export function isSluiceHeader(name: string): boolean {
  return name.toLowerCase().startsWith(SLUICE_PREFIX)
}

/**
 * Whether an email may not have this header. `allowed`: EMAIL_HEADERS_ALLOWED, names or prefixes that end with `*`.
 * Sluice's own headers are never allowed.
 */
export function controlsRelay(name: string, allowed: readonly string[]): boolean {
  if (isSluiceHeader(name)) return true
  const lower = name.toLowerCase()
  const is_listed = RELAY_CONTROL_HEADERS.some((each) =>
    each.endsWith('-') ? lower.startsWith(each) : lower === each,
  )
  if (!is_listed && !RELAY_CONTROL_PATTERN.test(lower)) return false
  return !allowed.some((each) => {
    const pattern = each.toLowerCase()
    return pattern.endsWith('*') ? lower.startsWith(pattern.slice(0, -1)) : lower === pattern
  })
}
