// The content of a message: the texts as they were sent, and the attachments.
import { Tabs } from '@mantine/core'
import { CodeBlock } from '../kit/CodeBlock.tsx'

type Content = {
  text: string | null
  html: string | null
  body: string | null
  attachments?: { filename: string; content_type: string; size: number }[] | null
}

/** HTML is shown as source and never rendered: it may contain untrusted input. */
export function MessageContent({ message: { text, html, body, attachments = null } }: { message: Content }) {
  const bodies = [
    { name: 'Text', text: body ?? text },
    { name: 'HTML', text: html },
  ].flatMap(({ name, text: content }) => (content === null ? [] : [{ name, content }]))
  return (
    <>
      {bodies.length === 0 && <p className="dim">Its text is not retained.</p>}
      {bodies.length > 0 && (
        <Tabs defaultValue={bodies[0]!.name}>
          {bodies.length > 1 && (
            <Tabs.List>
              {bodies.map(({ name }) => (
                <Tabs.Tab key={name} value={name}>
                  {name}
                </Tabs.Tab>
              ))}
            </Tabs.List>
          )}
          {bodies.map(({ name, content }) =>
            name === 'HTML' ? (
              <Tabs.Panel key={name} value={name}>
                <CodeBlock text={content} label="HTML" />
              </Tabs.Panel>
            ) : (
              <Tabs.Panel key={name} value={name}>
                <div className="message-body">{content}</div>
              </Tabs.Panel>
            ),
          )}
        </Tabs>
      )}
      {attachments !== null && attachments.length > 0 && (
        <ul className="inline" aria-label="Attachments">
          {attachments.map(({ filename, content_type, size }) => (
            <li key={filename} className="chip" title={content_type}>
              {filename}&nbsp;<span className="dim">{size.toLocaleString()} bytes&nbsp;</span>
            </li>
          ))}
        </ul>
      )}
    </>
  )
}
