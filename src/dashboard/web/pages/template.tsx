// One template: an editor for its texts, and a preview with variables.
import { Button, Textarea, TextInput } from '@mantine/core'
import { useMutation } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import type { MessageTemplate, UpdateMessageTemplate } from '#sdk/index.ts'
import { actResponse, notifyActDone } from '../kit/ActResult.tsx'
import { usePathParam } from '../address.ts'
import { sluice } from '../api.ts'
import { PageSkeleton } from '../kit/Skeleton.tsx'
import { ConfirmDialog, DialogError } from '../kit/ConfirmDialog.tsx'
import { Id } from '../kit/Id.tsx'
import { Instant } from '../kit/Instant.tsx'
import { ErrorPage } from '../kit/ErrorPage.tsx'
import { PageHeader } from '../kit/PageHeader.tsx'
import { CHANNEL_LABELS } from '../messages/channels.ts'
import { MessageContent } from '../messages/MessageContent.tsx'
import { parseVariables, VariablesField } from '../messages/VariablesField.tsx'
import { invalidate, useAnswer } from '../queries.ts'
import { useMay, useRolesThatMay } from '../session.tsx'

export function TemplatePage() {
  const id = usePathParam('id')
  const { data: template, error, refetch } = useAnswer<MessageTemplate>(`/v1/messages/templates/${id}`)
  if (template !== undefined) return <TemplateEditor key={id} template={template} />
  if (error === null) return <PageSkeleton />
  return (
    <ErrorPage
      title="Template"
      parent={{ to: '/messages/templates', title: 'Templates' }}
      error={error}
      retry={refetch}
    />
  )
}

const TEXTS = ['name', 'subject', 'text', 'html', 'body'] as const satisfies (keyof UpdateMessageTemplate)[]
type Texts = Pick<MessageTemplate, (typeof TEXTS)[number]>

function TemplateEditor({ template }: { template: MessageTemplate }) {
  const { id, channel, name, subject, text, html, body, updated_at } = template
  const may_delete = useMay('deleteMessageTemplate')
  const saved: Texts = { name, subject, text, html, body }
  const [texts, set] = useState(saved)
  const [deleting, setDeleting] = useState(false)
  const changes: UpdateMessageTemplate = Object.fromEntries(
    TEXTS.filter((each) => texts[each] !== saved[each]).map((each) => [each, texts[each]]),
  )
  return (
    <>
      <PageHeader
        title={name}
        parent={{ to: '/messages/templates', title: 'Templates' }}
        description={
          <>
            {CHANNEL_LABELS[channel]} · <Id id={id} /> · changed <Instant at={updated_at} />
          </>
        }
        actions={may_delete && <Button onClick={() => setDeleting(true)}>Delete template</Button>}
      />
      <div className="columns">
        <TemplateForm
          template={template}
          texts={texts}
          set={set}
          changes={changes}
          discard={() => set(saved)}
        />
        <TemplatePreview id={id} changed={Object.keys(changes).length > 0} />
      </div>
      <DeleteDialog opened={deleting} onClose={() => setDeleting(false)} id={id} name={name} />
    </>
  )
}

/** `texts`: as edited. `changes`: the texts that are not saved yet. */
function TemplateForm({
  template: { id, channel },
  texts,
  set,
  changes,
  discard,
}: {
  template: MessageTemplate
  texts: Texts
  set: (texts: Texts) => void
  changes: UpdateMessageTemplate
  discard: () => void
}) {
  const may_update = useMay('updateMessageTemplate')
  const who_may = useRolesThatMay('updateMessageTemplate')
  const changed = Object.keys(changes).length > 0
  const save = useMutation({
    mutationFn: () => actResponse(sluice.messages.templates.update(id, changes)),
    onSuccess: async (result) => {
      notifyActDone('Template saved.', result)
      await invalidate('/v1/messages/templates')
    },
  })
  const field = (of: keyof Texts, label: string) => ({
    label,
    readOnly: !may_update,
    value: texts[of] ?? '',
    onChange: (event: { currentTarget: { value: string } }) => {
      const typed = event.currentTarget.value
      set({ ...texts, [of]: typed === '' && of !== 'name' ? null : typed })
    },
  })
  const area = { autosize: true, minRows: 5, maxRows: 24, classNames: { input: 'mono' } }
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault()
        if (changed) save.mutate()
      }}
    >
      <TextInput {...field('name', 'Name')} />
      {channel === 'email' ? (
        <>
          <TextInput {...field('subject', 'Subject')} />
          <Textarea {...field('text', 'Text')} {...area} />
          <Textarea {...field('html', 'HTML')} {...area} />
        </>
      ) : (
        <Textarea {...field('body', 'Text')} {...area} />
      )}
      {save.error !== null && <DialogError error={save.error} />}
      {may_update ? (
        <div className="inline">
          <Button type="submit" variant="filled" disabled={!changed || save.isPending}>
            Save template
          </Button>
          {changed && (
            <Button variant="subtle" color="gray" onClick={discard}>
              Discard changes
            </Button>
          )}
        </div>
      ) : (
        <p className="dim">Only an {who_may} can change templates.</p>
      )}
    </form>
  )
}

function DeleteDialog({
  id,
  name,
  ...dialog
}: {
  opened: boolean
  onClose: () => void
  id: string
  name: string
}) {
  const navigate = useNavigate()
  return (
    <ConfirmDialog
      {...dialog}
      title={`Delete ${name}?`}
      action="Delete template"
      tone="bad"
      effect="Messages that use it are refused from now on. Those already accepted are still sent. This cannot be undone."
      act={() => actResponse(sluice.messages.templates.delete(id))}
      onDone={async (result) => {
        notifyActDone('Template deleted.', result)
        await navigate({ to: '/messages/templates' })
        await invalidate('/v1/messages/templates')
      }}
    />
  )
}

function TemplatePreview({ id, changed }: { id: string; changed: boolean }) {
  const may_preview = useMay('previewMessageTemplate')
  const [variables, setVariables] = useState('{}')
  const parsed = parseVariables(variables)
  const preview = useMutation({
    mutationFn: () => sluice.messages.templates.preview(id, { variables: parsed ?? {} }),
  })
  if (!may_preview) return null
  return (
    <section className="stack" aria-label="Preview">
      <h2 className="side-title">Preview</h2>
      <VariablesField value={variables} onChange={setVariables} />
      <div className="inline">
        <Button disabled={parsed === undefined || preview.isPending} onClick={() => preview.mutate()}>
          Preview template
        </Button>
        {changed && <span className="dim">Shows the saved version.</span>}
      </div>
      {preview.error !== null && <DialogError error={preview.error} />}
      {preview.data !== undefined && (
        <div aria-live="polite">
          {preview.data.subject !== null && <strong>{preview.data.subject}</strong>}
          <MessageContent message={preview.data} />
        </div>
      )}
    </section>
  )
}
