// The text of the invitation email.

/** The subject (one line) and the plain text. `by` and `tenant` are chosen by people and untrusted; `slug` is not. */
export function invitationEmail(invitation: { by: string; tenant: string; slug: string; link: string }): {
  subject: string
  text: string
} {
  const [by, tenant] = [sanitizeName(invitation.by), sanitizeName(invitation.tenant)]
  // The text names the slug with the name of the tenant, because the subject has only the slug. A name that is empty or
  // equal to the slug is omitted.
  const of = ['', invitation.slug].includes(tenant.toLowerCase())
    ? invitation.slug
    : `${tenant} (${invitation.slug})`
  return {
    subject: `You are invited to ${invitation.slug} on Sluice`,
    text: [
      `${by || 'Someone'} invites you to the dashboard of ${of} on Sluice.`,
      '',
      'Accept the invitation here, within a week:',
      '',
      invitation.link,
      '',
      'If you did not expect this invitation, you can ignore this email.',
      '',
    ].join('\n'),
  }
}

const MAX_NAME_LENGTH = 60

/**
 * Keeps letters, digits, spaces and the punctuation of names. Without inner dots, no mail program turns a name into a
 * link.
 */
function sanitizeName(name: string): string {
  return name
    .replaceAll(/\.(?! |$)|[^\p{L}\p{M}\p{N}.,'’&()-]+/gu, ' ')
    .trim()
    .slice(0, MAX_NAME_LENGTH)
    .trim()
}
