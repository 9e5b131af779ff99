// What the email says to somebody who is invited.

/** The subject, one line, and the text, plain. `by` and `tenant` are names that people choose, `slug` is not. */
export function invitationEmail(invitation: { by: string; tenant: string; slug: string; link: string }): {
  subject: string
  text: string
} {
  const [by, tenant] = [sanitizeName(invitation.by), sanitizeName(invitation.tenant)]
  // The subject has the slug: the text says what belongs to it.
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

/** Letters, digits, spaces and what names have between them. Without dots inside no program makes a link of it. */
function sanitizeName(name: string): string {
  return name
    .replaceAll(/\.(?! |$)|[^\p{L}\p{M}\p{N}.,'’&()-]+/gu, ' ')
    .trim()
    .slice(0, MAX_NAME_LENGTH)
    .trim()
}
