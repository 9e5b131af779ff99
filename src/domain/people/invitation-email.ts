// What the email says to somebody who is invited.

/** The subject, one line, and the text, plain. */
export function invitationEmail(invitation: { by: string; tenant: string; link: string }): {
  subject: string
  text: string
} {
  const [by, tenant] = [oneLine(invitation.by), oneLine(invitation.tenant)]
  return {
    subject: `${by} invites you to ${tenant} on Sluice`,
    text: [
      `${by} invites you to the dashboard of ${tenant} on Sluice.`,
      '',
      'Accept the invitation here, within a week:',
      '',
      invitation.link,
      '',
      'If you did not expect it, you can ignore this email.',
      '',
    ].join('\n'),
  }
}

/** People choose these names: they stay on their line, and turn no writing direction. */
function oneLine(text: string): string {
  return text
    .replaceAll(/[\p{C}\p{Z}]+/gu, ' ')
    .trim()
    .slice(0, 200)
}
