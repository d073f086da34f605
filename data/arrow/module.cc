// The module gradwire-arrow: Parquet files by Apache Arrow C++, as batches of columns in Arrow's C data interface (arrow.h). It is
// loaded by a process whose job names such a file, and nothing else of gradwire links Arrow. No exception leaves it, it decodes on
// the caller's thread, and what it hands over has been validated: offsets, indices and sizes are within their buffers.
#include <arrow/api.h>
#include <arrow/array/validate.h>
#include <arrow/c/bridge.h>
#include <arrow/csv/api.h>
#include <arrow/io/file.h>
#include <arrow/io/memory.h>
#include <arrow/util/bit_util.h>
#include <parquet/column_reader.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/arrow/writer.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

#include "data/arrow/arrow.h"

// A column of a row group whose pages all have places in one dictionary, which is the same array in all batches.
struct coded_column {
    std::shared_ptr<parquet::ColumnReader> reader;
    std::shared_ptr<arrow::Array> words; // null: no page was read yet
};

struct arrow_file {
    arrow::ProxyMemoryPool pool{arrow::default_memory_pool()}; // of all below
    std::unique_ptr<parquet::arrow::FileReader> reader;
    std::shared_ptr<arrow::Schema> schema;
    std::vector<int64_t> group_rows;
    std::vector<std::vector<int>> leaves; // of each column
    // has times of INT96 in seconds; none: no column has that type
    std::unique_ptr<parquet::arrow::FileReader> seconds;
    std::unique_ptr<arrow::RecordBatchReader> batches;
    uint32_t group = 0;
    std::vector<uint32_t> columns; // that are read
    std::vector<int>
        place; // of each of them in a batch, which has them in the order of the file; -1: it is coded
    std::vector<coded_column> coded; // (columns) without a reader: those that are not
    std::shared_ptr<parquet::RowGroupReader> chunks; // of `coded`
    int64_t rows = 0;                                // that the group still has
    int64_t batch_rows = 0;
};

// Bytes of the file, until somebody takes them.
class Bytes : public arrow::io::OutputStream
{
  public:
    std::string bytes;
    arrow::Status Write(const void *data, int64_t n) override
    {
        bytes.append(static_cast<const char *>(data), static_cast<size_t>(n));
        at += n;
        return arrow::Status::OK();
    }
    arrow::Status Close() override
    {
        is_closed = true;
        return arrow::Status::OK();
    }
    bool closed() const override
    {
        return is_closed;
    }
    arrow::Result<int64_t> Tell() const override
    {
        return at;
    }

  private:
    int64_t at = 0;
    bool is_closed = false;
};

struct arrow_writer {
    std::shared_ptr<arrow::Schema> schema;
    std::vector<std::shared_ptr<arrow::DataType>> types;
    std::shared_ptr<Bytes> sink = std::make_shared<Bytes>();
    std::string taken;
    std::unique_ptr<parquet::arrow::FileWriter> file;
};

namespace
{

constexpr int64_t BUFFER_BYTES = 128 << 10; // of a column chunk

arrow_answer answer(const arrow::Status &s, arrow_why *why)
{
    if (s.ok())
        return ARROW_DONE;
    std::string text = s.message();
    text.erase(text.find_last_not_of(" \n") + 1);
    std::snprintf(why->text, sizeof why->text, "%s", text.c_str());
    return s.IsOutOfMemory() ? ARROW_NO_MEMORY : ARROW_WRONG;
}

// The answer of a function; an exception becomes one, too.
template <typename F> arrow_answer guarded(arrow_why *why, F f)
{
    try {
        return answer(f(), why);
    } catch (const std::bad_alloc &) {
        return answer(arrow::Status::OutOfMemory("std::bad_alloc"), why);
    } catch (const std::exception &e) {
        return answer(arrow::Status::Invalid(e.what()), why);
    } catch (...) {
        return answer(arrow::Status::Invalid("an unknown exception"), why);
    }
}

void add_leaves(const parquet::arrow::SchemaField &field, std::vector<int> *out)
{
    if (field.is_leaf())
        out->push_back(field.column_index);
    for (const auto &child : field.children)
        add_leaves(child, out);
}

bool is_int96(const arrow_file *f, uint32_t column)
{
    const auto schema = f->reader->parquet_reader()->metadata()->schema();
    const auto &leaves = f->leaves[column];
    return leaves.size() == 1 && schema->Column(leaves[0])->physical_type() == parquet::Type::INT96;
}

arrow::Status open_file(arrow_file *f, int fd)
{
    const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return arrow::Status::IOError(std::strerror(errno));
    auto opened = arrow::io::ReadableFile::Open(own);
    if (!opened.ok())
        ::close(own);
    ARROW_ASSIGN_OR_RAISE(auto file, std::move(opened));
    parquet::ReaderProperties reading(&f->pool);
    reading.enable_buffered_stream(); // a row group can be larger than the memory
    reading.set_buffer_size(BUFFER_BYTES);
    reading.set_page_checksum_verification(true);  // of pages that have one
    parquet::ArrowReaderProperties columns(false); // on this thread
    columns.set_pre_buffer(false);
    parquet::arrow::FileReaderBuilder builder;
    builder.memory_pool(&f->pool);
    ARROW_RETURN_NOT_OK(builder.Open(file, reading));
    ARROW_RETURN_NOT_OK(builder.properties(columns)->Build(&f->reader));
    ARROW_RETURN_NOT_OK(f->reader->GetSchema(&f->schema));
    for (const auto &field : f->reader->manifest().schema_fields)
        add_leaves(field, &f->leaves.emplace_back());
    const auto footer = f->reader->parquet_reader()->metadata();
    for (int i = 0; i < footer->num_row_groups(); i++)
        f->group_rows.push_back(footer->RowGroup(i)->num_rows());
    if (std::any_of(f->group_rows.begin(), f->group_rows.end(), [](int64_t n) { return n < 0; }))
        return arrow::Status::Invalid("a row group has fewer than 0 rows");
    bool any = false;
    for (uint32_t c = 0; c < f->leaves.size(); c++)
        any = any || is_int96(f, c);
    if (!any)
        return arrow::Status::OK();
    columns.set_coerce_int96_timestamp_unit(arrow::TimeUnit::SECOND);
    ARROW_RETURN_NOT_OK(builder.Open(file, reading, footer));
    return builder.properties(columns)->Build(&f->seconds);
}

arrow::Status of_column(const arrow_file *f, uint32_t column, const arrow::Status &s)
{
    return s.ok() ? s
                  : s.WithMessage("column \"", f->schema->field(static_cast<int>(column))->name(),
                                  "\": ", s.message());
}

// The times of the column in this group must be ones of int64 nanoseconds, as which they are read: others would wrap around.
arrow::Status check_times(arrow_file *f, uint32_t column)
{
    constexpr int64_t MOST = INT64_MAX / 1000000000;
    std::shared_ptr<arrow::RecordBatch> batch;
    ARROW_ASSIGN_OR_RAISE(auto batches, f->seconds->GetRecordBatchReader(
                                            {static_cast<int>(f->group)}, f->leaves[column]));
    for (int64_t row = 0;; row += batch->num_rows()) {
        ARROW_RETURN_NOT_OK(batches->ReadNext(&batch));
        if (!batch)
            return arrow::Status::OK();
        auto times = batch->column(0);
        const bool list = times->type_id() == arrow::Type::LIST;
        if (list)
            times = static_cast<const arrow::ListArray &>(*times).values();
        if (times->type_id() != arrow::Type::TIMESTAMP)
            return arrow::Status::OK();
        const auto &of = static_cast<const arrow::TimestampArray &>(*times);
        for (int64_t i = 0; i < of.length(); i++)
            if (of.IsValid(i) && (of.Value(i) <= -MOST || of.Value(i) >= MOST))
                return of_column(
                    f, column,
                    arrow::Status::Invalid(list ? "" : "row " + std::to_string(row + i) + ": ",
                                           of.GetScalar(i).ValueOrDie()->ToString(),
                                           " is beyond the times of INT96 that are read, of the "
                                           "years 1678 to 2261: write the column as a timestamp of "
                                           "microseconds"));
    }
}

// Can the column's values be places in a dictionary? It is flat, and its Arrow type is the plain one of its values.
bool is_codable(const arrow_file *f, uint32_t column)
{
    const auto id = f->schema->field(static_cast<int>(column))->type()->id();
    if (f->leaves[column].size() != 1 || (id != arrow::Type::STRING && id != arrow::Type::BINARY &&
                                          id != arrow::Type::INT32 && id != arrow::Type::INT64))
        return false;
    const auto *of =
        f->reader->parquet_reader()->metadata()->schema()->Column(f->leaves[column][0]);
    const auto wanted = id == arrow::Type::INT32   ? parquet::Type::INT32
                        : id == arrow::Type::INT64 ? parquet::Type::INT64
                                                   : parquet::Type::BYTE_ARRAY;
    return of->physical_type() == wanted && of->max_repetition_level() == 0 &&
           of->max_definition_level() <= 1;
}

void find_coded(arrow_file *f, const bool *coded)
{
    const auto codes = parquet::ExposedEncoding::DICTIONARY;
    f->coded.assign(f->columns.size(), coded_column());
    f->chunks = f->reader->parquet_reader()->RowGroup(static_cast<int>(f->group));
    for (size_t i = 0; i < f->columns.size(); i++) {
        if (!coded[i] || !is_codable(f, f->columns[i]))
            continue;
        auto reader = f->chunks->ColumnWithExposeEncoding(f->leaves[f->columns[i]][0], codes);
        if (reader->GetExposedEncoding() == codes)
            f->coded[i].reader = std::move(reader);
    }
}

arrow::Status begin_group(arrow_file *f, uint32_t rows, const bool *coded)
{
    std::vector<int> leaves;
    std::vector<uint32_t> sorted;
    find_coded(f, coded);
    for (size_t i = 0; i < f->columns.size(); i++)
        if (!f->coded[i].reader)
            sorted.push_back(f->columns[i]);
    std::sort(sorted.begin(), sorted.end());
    f->place.clear();
    for (size_t i = 0; i < f->columns.size(); i++) {
        const uint32_t c = f->columns[i];
        const auto at = std::lower_bound(sorted.begin(), sorted.end(), c) - sorted.begin();
        f->place.push_back(f->coded[i].reader ? -1 : static_cast<int>(at));
        if (!f->coded[i].reader)
            leaves.insert(leaves.end(), f->leaves[c].begin(), f->leaves[c].end());
    }
    f->batch_rows = rows;
    f->reader->set_batch_size(rows);
    for (uint32_t c : f->columns)
        if (is_int96(f, c))
            ARROW_RETURN_NOT_OK(check_times(f, c));
    f->rows = f->group_rows[f->group];
    ARROW_ASSIGN_OR_RAISE(f->batches,
                          f->reader->GetRecordBatchReader({static_cast<int>(f->group)}, leaves));
    return arrow::Status::OK();
}

// Texts as bytes: what is wrong of UTF-8 is no fault here.
std::shared_ptr<arrow::ArrayData> as_bytes(const arrow::ArrayData &data)
{
    auto out = data.Copy();
    const auto id = data.type->id();
    if (id == arrow::Type::STRING)
        out->type = arrow::binary();
    else if (id == arrow::Type::LARGE_STRING)
        out->type = arrow::large_binary();
    else if (id == arrow::Type::STRING_VIEW)
        out->type = arrow::binary_view();
    for (auto &child : out->child_data)
        child = as_bytes(*child);
    if (out->dictionary)
        out->dictionary = as_bytes(*out->dictionary);
    return out;
}

template <typename Builder, typename Value>
arrow::Status make_words(arrow::MemoryPool *pool, const Value *values, int32_t n,
                         std::shared_ptr<arrow::Array> *out)
{
    Builder words(pool);
    ARROW_RETURN_NOT_OK(words.Reserve(n));
    for (int32_t i = 0; i < n; i++)
        if constexpr (std::is_same_v<Value, parquet::ByteArray>)
            ARROW_RETURN_NOT_OK(words.Append(values[i].ptr, static_cast<int32_t>(values[i].len)));
        else
            ARROW_RETURN_NOT_OK(words.Append(values[i]));
    return words.Finish(out);
}

// The next n rows: the values of those that are not null stand without gaps, and get their places from the last to the first.
template <typename Type, typename Builder>
arrow::Result<std::shared_ptr<arrow::Array>> coded_rows(arrow::MemoryPool *pool, coded_column *c,
                                                        int64_t n)
{
    auto *reader = static_cast<parquet::TypedColumnReader<Type> *>(c->reader.get());
    const int16_t there = reader->descr()->max_definition_level();
    std::vector<int16_t> level(static_cast<size_t>(n), there);
    ARROW_ASSIGN_OR_RAISE(auto codes, arrow::AllocateBuffer(n * int64_t{sizeof(int32_t)}, pool));
    ARROW_ASSIGN_OR_RAISE(auto valid, arrow::AllocateEmptyBitmap(n, pool));
    auto *code = reinterpret_cast<int32_t *>(codes->mutable_data());
    int64_t rows = 0, values = 0, nulls = 0;
    while (rows < n && reader->HasNext()) {
        const typename Type::c_type *words = nullptr;
        int32_t words_n = 0;
        int64_t more = 0;
        rows += reader->ReadBatchWithDictionary(n - rows, level.data() + rows, nullptr,
                                                code + values, &more, &words, &words_n);
        values += more;
        if (words && !c->words)
            ARROW_RETURN_NOT_OK(make_words<Builder>(pool, words, words_n, &c->words));
    }
    if (rows != n)
        return arrow::Status::Invalid("it has other rows than the file's footer says");
    if (!c->words)
        ARROW_RETURN_NOT_OK(Builder(pool).Finish(&c->words));
    uint32_t most = 0;
    for (int64_t i = 0; i < values; i++)
        most = std::max(most, static_cast<uint32_t>(code[i]));
    if (values && most >= c->words->length())
        return arrow::Status::Invalid("a value is not in its dictionary");
    uint8_t *bits = valid->mutable_data();
    if (values == n)
        std::memset(bits, 0xFF, static_cast<size_t>(valid->size()));
    for (int64_t i = n, from = values; i-- > 0 && values != n;) {
        const bool is = level[static_cast<size_t>(i)] == there;
        code[i] = is && from > 0 ? code[--from] : 0;
        arrow::bit_util::SetBitTo(bits, i, is);
        nulls += !is;
    }
    if (values + nulls != n)
        return arrow::Status::Invalid("it has other values than its levels say");
    auto data = arrow::ArrayData::Make(arrow::dictionary(arrow::int32(), c->words->type()), n,
                                       {std::move(valid), std::move(codes)}, nulls);
    data->dictionary = c->words->data();
    return arrow::MakeArray(data);
}

arrow::Result<std::shared_ptr<arrow::Array>> next_coded(arrow::MemoryPool *pool, coded_column *c,
                                                        int64_t n)
{
    switch (c->reader->type()) {
    case parquet::Type::INT32:
        return coded_rows<parquet::Int32Type, arrow::Int32Builder>(pool, c, n);
    case parquet::Type::INT64:
        return coded_rows<parquet::Int64Type, arrow::Int64Builder>(pool, c, n);
    default:
        return coded_rows<parquet::ByteArrayType, arrow::BinaryBuilder>(pool, c, n);
    }
}

// The columns in the order in which they are wanted. batch: those that are not coded.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> in_order(arrow_file *f,
                                                            const arrow::RecordBatch &batch)
{
    std::vector<std::shared_ptr<arrow::Array>> arrays;
    std::vector<std::shared_ptr<arrow::Field>> fields;
    if (batch.num_columns() !=
        std::count_if(f->place.begin(), f->place.end(), [](int at) { return at >= 0; }))
        return arrow::Status::Invalid("a column is not there");
    for (size_t i = 0; i < f->columns.size(); i++) {
        std::shared_ptr<arrow::Array> array;
        arrow_why why = {""};
        const auto read = [&] {
            if (f->place[i] < 0) {
                ARROW_ASSIGN_OR_RAISE(array, next_coded(&f->pool, &f->coded[i], batch.num_rows()));
                return arrow::Status::OK();
            }
            array = batch.column(f->place[i]);
            return arrow::internal::ValidateArrayFull(*as_bytes(*array->data()));
        };
        const arrow_answer a = guarded(&why, read);
        if (a != ARROW_DONE)
            return a == ARROW_NO_MEMORY
                       ? arrow::Status::OutOfMemory(why.text)
                       : of_column(f, f->columns[i], arrow::Status::Invalid(why.text));
        arrays.push_back(array);
        fields.push_back(arrow::field("", array->type()));
    }
    return arrow::RecordBatch::Make(arrow::schema(fields), batch.num_rows(), arrays);
}

// Which column is it? The first that cannot be read alone.
arrow::Status blame(arrow_file *f, const arrow::Status &s)
{
    for (uint32_t c : f->columns) {
        arrow_why why = {""};
        const auto read = [&] {
            ARROW_ASSIGN_OR_RAISE(auto batches, f->reader->GetRecordBatchReader(
                                                    {static_cast<int>(f->group)}, f->leaves[c]));
            std::shared_ptr<arrow::RecordBatch> batch;
            do
                ARROW_RETURN_NOT_OK(batches->ReadNext(&batch));
            while (batch);
            return arrow::Status::OK();
        };
        if (guarded(&why, read) == ARROW_WRONG)
            return of_column(f, c, arrow::Status::Invalid(why.text));
    }
    return s;
}

arrow::Status next_batch(arrow_file *f, ArrowArray *out)
{
    std::shared_ptr<arrow::RecordBatch> batch;
    const bool all_coded =
        std::all_of(f->place.begin(), f->place.end(), [](int at) { return at < 0; });
    if (f->columns.empty() || !all_coded)
        ARROW_RETURN_NOT_OK(f->batches->ReadNext(&batch));
    else if (f->rows > 0)
        batch = arrow::RecordBatch::Make(arrow::schema(arrow::FieldVector()),
                                         std::min(f->rows, f->batch_rows), arrow::ArrayVector());
    f->rows -= batch ? batch->num_rows() : 0;
    if (f->rows < 0 || (!batch && f->rows > 0))
        return arrow::Status::Invalid("it has other rows than the file's footer says");
    if (!batch)
        return arrow::Status::OK();
    ARROW_ASSIGN_OR_RAISE(batch, in_order(f, *batch));
    return arrow::ExportRecordBatch(*batch, out);
}

arrow_answer blamed(arrow_file *f, arrow_why *why, arrow_answer a)
{
    return a == ARROW_WRONG
               ? guarded(why, [&] { return blame(f, arrow::Status::Invalid(why->text)); })
               : a;
}

// ---- writing ----

// Lines of csv as columns of these types. The names are numbers, as names in a file need not differ.
arrow::Result<arrow::ArrayVector>
columns_of(const char *lines, size_t bytes,
           const std::vector<std::shared_ptr<arrow::DataType>> &type)
{
    auto read = arrow::csv::ReadOptions::Defaults();
    auto parse = arrow::csv::ParseOptions::Defaults();
    auto convert = arrow::csv::ConvertOptions::Defaults();
    arrow::ArrayVector out;
    if (bytes >= INT32_MAX)
        return arrow::Status::Invalid("rows of more than 2 GiB at a time");
    read.use_threads = false;
    read.block_size = static_cast<int32_t>(bytes) + 1; // so that each column is one array
    parse.newlines_in_values = true;
    parse.ignore_empty_lines = false;
    convert.check_utf8 = false;
    convert.null_values = {""};
    convert.strings_can_be_null = true;
    for (size_t i = 0; i < type.size(); i++) {
        read.column_names.push_back(std::to_string(i));
        convert.column_types[read.column_names[i]] = type[i];
    }
    auto text = std::make_shared<arrow::io::BufferReader>(std::make_shared<arrow::Buffer>(
        reinterpret_cast<const uint8_t *>(lines), static_cast<int64_t>(bytes)));
    ARROW_ASSIGN_OR_RAISE(
        auto reader,
        arrow::csv::TableReader::Make(arrow::io::default_io_context(), text, read, parse, convert));
    ARROW_ASSIGN_OR_RAISE(auto all, reader->Read());
    for (const auto &column : all->columns()) {
        if (column->num_chunks() != 1)
            return arrow::Status::Invalid("the rows are not one array");
        out.push_back(column->chunk(0));
    }
    return out;
}

arrow::Status begin_writing(arrow_writer *w, const char *names, size_t bytes, const char *types,
                            const char *codec)
{
    const std::vector<std::shared_ptr<arrow::DataType>> texts(std::strlen(types), arrow::utf8());
    arrow::FieldVector fields;
    ARROW_ASSIGN_OR_RAISE(const auto line, columns_of(names, bytes, texts));
    for (size_t i = 0; i < line.size(); i++) {
        ARROW_ASSIGN_OR_RAISE(const auto name, line[i]->GetScalar(0));
        w->types.push_back(types[i] == 'f'   ? arrow::float32()
                           : types[i] == 'd' ? arrow::float64()
                           : types[i] == 'i' ? arrow::int64()
                                             : arrow::utf8());
        fields.push_back(arrow::field(name->is_valid ? name->ToString() : "", w->types.back()));
    }
    w->schema = arrow::schema(fields);
    const auto how =
        parquet::WriterProperties::Builder()
            .compression(std::strcmp(codec, "snappy") == 0 ? parquet::Compression::SNAPPY
                                                           : parquet::Compression::ZSTD)
            ->build();
    ARROW_ASSIGN_OR_RAISE(w->file, parquet::arrow::FileWriter::Open(
                                       *w->schema, arrow::default_memory_pool(), w->sink, how));
    return arrow::Status::OK();
}

arrow::Status write_lines(arrow_writer *w, const char *lines, size_t bytes)
{
    if (!lines)
        return w->file->Close();
    ARROW_ASSIGN_OR_RAISE(const auto columns, columns_of(lines, bytes, w->types));
    return w->file->WriteRecordBatch(
        *arrow::RecordBatch::Make(w->schema, columns[0]->length(), columns));
}

arrow::Status write_columns(arrow_writer *w, ArrowArray *take_rows)
{
    ARROW_ASSIGN_OR_RAISE(const auto rows, arrow::ImportRecordBatch(take_rows, w->schema));
    ARROW_RETURN_NOT_OK(w->file->NewBufferedRowGroup());
    return w->file->WriteRecordBatch(*rows);
}

arrow_answer write_new(arrow_writer **out, const char *names, size_t bytes, const char *types,
                       const char *codec, arrow_why *why)
{
    return guarded(why, [&] {
        auto w = std::make_unique<arrow_writer>();
        ARROW_RETURN_NOT_OK(begin_writing(w.get(), names, bytes, types, codec));
        *out = w.release();
        return arrow::Status::OK();
    });
}

void hand_over(arrow_writer *w, const char **out, size_t *out_bytes)
{
    w->taken.clear();
    std::swap(w->taken, w->sink->bytes);
    *out = w->taken.data();
    *out_bytes = w->taken.size();
}

arrow_answer write(arrow_writer *w, const char *lines, size_t bytes, const char **out,
                   size_t *out_bytes, arrow_why *why)
{
    return guarded(why, [&] {
        ARROW_RETURN_NOT_OK(write_lines(w, lines, bytes));
        hand_over(w, out, out_bytes);
        return arrow::Status::OK();
    });
}

arrow_answer write_group(arrow_writer *w, ArrowArray *take_rows, const char **out,
                         size_t *out_bytes, arrow_why *why)
{
    return guarded(why, [&] {
        ARROW_RETURN_NOT_OK(write_columns(w, take_rows));
        hand_over(w, out, out_bytes);
        return arrow::Status::OK();
    });
}

void write_free(arrow_writer *w)
{
    const std::unique_ptr<arrow_writer> owned(w);
    arrow_why why;
    if (w && w->file)
        (void)guarded(
            &why, [&] { return w->file->Close(); }); // an open one closes itself, with exceptions
}

// ---- the table ----

arrow_answer open(arrow_file **out, int fd, arrow_why *why)
{
    auto f = std::unique_ptr<arrow_file>(new (std::nothrow) arrow_file);
    if (!f)
        return ARROW_NO_MEMORY;
    const arrow_answer a = guarded(why, [&] { return open_file(f.get(), fd); });
    if (a == ARROW_DONE)
        *out = f.release();
    return a;
}

void close(arrow_file *f)
{
    delete f;
}

arrow_answer schema(arrow_file *f, ArrowSchema *out, arrow_why *why)
{
    return guarded(why, [&] { return arrow::ExportSchema(*f->schema, out); });
}

uint32_t groups(const arrow_file *f)
{
    return static_cast<uint32_t>(f->group_rows.size());
}

uint64_t rows(const arrow_file *f, uint32_t group)
{
    return static_cast<uint64_t>(f->group_rows[group]);
}

arrow_span chunk(const arrow_file *f, uint32_t group, uint32_t column)
{
    arrow_span span = {0, 0};
    arrow_why why;
    if (f->leaves[column].empty())
        return span;
    (void)guarded(&why, [&] {
        const auto of = f->reader->parquet_reader()
                            ->metadata()
                            ->RowGroup(static_cast<int>(group))
                            ->ColumnChunk(f->leaves[column][0]);
        const bool dictionary = of->has_dictionary_page() && of->dictionary_page_offset() > 0 &&
                                of->dictionary_page_offset() < of->data_page_offset();
        const int64_t at = dictionary ? of->dictionary_page_offset() : of->data_page_offset();
        const int64_t bytes = of->total_compressed_size();
        if (at >= 0 && bytes >= 0)
            span = {static_cast<uint64_t>(at), static_cast<uint64_t>(bytes)};
        return arrow::Status::OK();
    });
    return span;
}

arrow_answer begin(arrow_file *f, uint32_t group, const uint32_t *column, uint32_t columns,
                   const bool *coded, uint32_t rows, arrow_why *why)
{
    const arrow_answer a = guarded(why, [&] {
        f->group = group;
        f->columns.assign(column, column + columns);
        return begin_group(f, rows, coded);
    });
    return blamed(f, why, a);
}

arrow_answer next(arrow_file *f, ArrowArray *out, arrow_why *why)
{
    out->release = nullptr;
    return blamed(f, why, guarded(why, [&] { return next_batch(f, out); }));
}

uint64_t held(const arrow_file *f)
{
    return static_cast<uint64_t>(std::max<int64_t>(f->pool.bytes_allocated(), 0));
}

} // namespace

extern "C" __attribute__((visibility("default"))) const arrow_module ARROW_MODULE;
const arrow_module ARROW_MODULE = {open, close, schema,    groups, rows,        chunk,     begin,
                                   next, held,  write_new, write,  write_group, write_free};
